package segment_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/internal/golden"
)

const about = `# The request log as Parquet

The request log is Parquet files, which DuckDB, ClickHouse, Spark, Athena, BigQuery and Snowflake read as they are. Each
row is one exchange. The table below is version %d of the schema, which the metadata of each file has as %s.
It is generated from the code.

The files are in the blob store of the control plane (%s; of %s: the folder %s of its data), one
folder a day, UTC: %s. The newest requests are still in the ledger's database: a day's
first 32,768 leave it together, and its last ones an hour after the day has ended. %s writes all of
them to files ([cli.md](cli.md#monitoring-and-maintenance)).

    SELECT day, model, sum(requests), sum(cost_usd)
    FROM read_parquet('s3://bucket/requests/*/*.parquet', hive_partitioning = true, union_by_name = true)
    WHERE day >= '2026-11-01' GROUP BY ALL

* The name of a file begins with a name of the ledger's database. A ledger that was restored or made anew has another
  name, and deletes nothing of the one before: what it restored is in both.
* When requests expire, or a user's id is erased, a new file is written before the old one is deleted. A query that runs
  at that moment may count a row twice or miss a file. Run it again.
* A field keeps its id, its name and its meaning. New fields get new ids, so select columns by their names, and let the
  engine unite files of several versions (DuckDB: %s).
* No value is NULL. An empty text and 0 mean that there is none.
* Rows are in the order of %s, and those of one time by %s. Row groups have %d rows at most.
* Sums of %s are exact. A vendor's batch is one row, so count requests with %s.

| id | field | type | meaning |
|---:|---|---|---|
`

// The schema is a contract: whoever changes a line of the table breaks queries of others.
func TestTheSchemaIsDocumented(t *testing.T) {
	var b strings.Builder
	fmt.Fprintf(&b, about, segment.Version, "`modelgate.version`", "`--blobs`", "`modelgate run`", "`blobs`",
		"`requests/day=2026-11-29/`", "`modelgate ledger export`",
		"`read_parquet('*.parquet', union_by_name = true)`", "`started_at`", "`id`", segment.GroupRows, "`cost_usd`",
		"`sum(requests)`")
	seen := map[segment.Column]string{}
	for _, d := range segment.Describe() {
		require.Empty(t, seen[d.ID], "%s has the id of another field", d.Name)
		seen[d.ID] = d.Name
		fmt.Fprintf(&b, "| %d | `%s` | %s | %s |\n", d.ID, d.Name, d.Type, d.About)
	}
	golden.Bytes(t, "../../../docs/segments.md", []byte(b.String()))
}
