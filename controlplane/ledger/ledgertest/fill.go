// Package ledgertest fills a ledger with as many exchanges as a busy gateway has, for benchmarks.
//
// It writes the tables by SQL of its own, because to record ten million exchanges would take an hour. Its test demands
// that every sum agrees with the exchanges.
package ledgertest

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/controlplane/ledger/segstore"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/internal/usage"
)

// Names in the exchanges. Each is derived from the number n of the exchange, in its own way.
const (
	Keys          = 1000
	Users         = 1000
	Organizations = 20
	Projects      = 60
	Models        = 5
	Providers     = 3
)

// Span is the time that the exchanges began in, evenly.
const Span = 30 * 24 * time.Hour

// Key returns the name of a key, as Fill writes it.
func Key(i int) string { return fmt.Sprintf("key_%d", i) }

// User returns the name of a user.
func User(i int) string { return fmt.Sprintf("user-%d", i) }

// Organization returns the name of an organization.
func Organization(i int) string { return fmt.Sprintf("org-%d", i) }

// Project returns the name of a project. Project i belongs to the organization i % Organizations.
func Project(i int) string { return fmt.Sprintf("project-%d", i) }

// Model returns the name of a model.
func Model(i int) string { return fmt.Sprintf("team/model-%d", i) }

// Provider returns the name of a provider. It serves the models m with m % Providers = i.
func Provider(i int) string { return fmt.Sprintf("provider-%d", i) }

// source has a line for each exchange n, from which its values are made. Key and model change with every exchange,
// so that each key uses each model.
const source = `
SELECT n, %d - (%d - n) * %d AS at, n %% 1000 AS k, n / 7 %% 1000 AS u, n %% 5 AS m FROM numbers`

// values of the columns of exchanges.
var values = [][2]string{
	{"id", "'bench-' || n"}, {"request_id", "'req-' || n"}, {"at", "at"}, {"duration", "500 + n % 1000"},
	{"api_key", "'key_' || k"}, {"organization", "'org-' || k % 20"}, {"project", "'project-' || k % 60"},
	{"user_id", "'user-' || u"}, {"operation", "'chat/completions'"}, {"model", "'team/model-' || m"},
	{"provider", "'provider-' || m % 3"}, {"upstream_model", "'model-' || m"}, {"attempts", "1"}, {"stream", "n % 2"},
	{"status", "CASE WHEN n % 50 = 0 THEN 502 ELSE 200 END"},
	{"outcome", "CASE WHEN n % 50 = 0 THEN 'failed' ELSE 'finished' END"},
	{"error_code", "CASE WHEN n % 50 = 0 THEN 'provider_error' ELSE '' END"}, {"first_byte_ms", "100 + n % 300"},
	{"input_tokens", "1000 + n % 500"}, {"cached_tokens", "0"}, {"cache_write_tokens", "0"}, {"input_audio_tokens", "0"},
	{"output_tokens", "100 + n % 200"}, {"reasoning_tokens", "0"}, {"output_audio_tokens", "0"}, {"images", "0"},
	{"estimated", "0"}, {"batch", "0"}, {"cost", "1000000 + n % 1000"}, {"priced", "1"}, {"price_version", "'bench'"},
	{"requests", "1"}, {"refused_by", "''"}, {"key_hint", "''"},
}

// Fill writes exchanges that began in the time before end, and their sums, into an empty ledger, which has been
// opened once. The dsn is the ledger's.
func Fill(tb testing.TB, dsn string, exchanges int, end time.Time) {
	tb.Helper()
	f := filler{tb: tb, postgres: strings.HasPrefix(dsn, "postgres"), exchanges: exchanges, end: end}
	var err error
	if f.postgres {
		f.db, err = sql.Open("pgx", dsn)
	} else {
		f.db, err = sql.Open("sqlite", "file:"+strings.TrimPrefix(dsn, "sqlite://")+
			"?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_pragma=cache_size(-200000)&_pragma=temp_store(MEMORY)")
	}
	require.NoError(tb, err)
	defer func() { require.NoError(tb, f.db.Close()) }()
	f.db.SetMaxOpenConns(1)
	f.exchangesOf()
	f.aggregates()
	f.sums()
	f.segments(dsn)
	f.exec("DROP TABLE exchanges")
	f.exec("ANALYZE")
}

type filler struct {
	tb        testing.TB
	db        *sql.DB
	postgres  bool
	exchanges int
	end       time.Time
}

func (f *filler) exec(parts ...string) {
	f.tb.Helper()
	_, err := f.db.ExecContext(context.Background(), strings.Join(parts, ""))
	require.NoError(f.tb, err, parts)
}

// exchangesOf writes the exchanges into a table, from which sums and segments are made.
func (f *filler) exchangesOf() {
	step := Span.Microseconds() / int64(f.exchanges)
	numbers := fmt.Sprintf("WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < %d)",
		f.exchanges)
	if f.postgres {
		numbers = fmt.Sprintf("WITH numbers AS (SELECT generate_series(1, %d)::bigint AS n)", f.exchanges)
	}
	var columns []string
	for _, v := range values {
		columns = append(columns, v[1]+" AS "+v[0])
	}
	f.exec("CREATE TABLE exchanges AS ", numbers, " SELECT ", strings.Join(columns, ", "), " FROM (",
		fmt.Sprintf(source, f.end.UnixMicro(), f.exchanges, step), ") AS made")
}

// segments writes the exchanges as the ledger has them when small segments have been merged.
func (f *filler) segments(dsn string) {
	db := &sqldb.DB{Now: time.Now}
	if f.postgres {
		require.NoError(f.tb, db.OpenPostgres(dsn))
	} else {
		require.NoError(f.tb, db.OpenSQLite(strings.TrimPrefix(dsn, "sqlite://")))
	}
	defer func() { require.NoError(f.tb, db.Close()) }()
	store := segstore.New(db)
	var waiting []segment.Row
	flush := func() {
		require.NoError(f.tb, db.Transact(context.Background(), func(tx *sql.Tx) error {
			return store.Add(context.Background(), tx, waiting)
		}))
		waiting = waiting[:0]
	}
	rows, err := f.db.QueryContext(context.Background(), "SELECT id, request_id, at, duration, api_key, "+
		"organization, project, user_id, operation, model, provider, upstream_model, stream, status, outcome, "+
		"error_code, first_byte_ms, input_tokens, output_tokens, cost FROM exchanges ORDER BY at")
	require.NoError(f.tb, err)
	defer func() { require.NoError(f.tb, rows.Close()) }()
	for rows.Next() {
		r := segment.Row{Attempts: 1, Priced: true, PriceVersion: "bench", Requests: 1}
		stream := 0
		require.NoError(f.tb, rows.Scan(&r.ID, &r.RequestID, &r.StartedAt, &r.DurationMS, &r.Key, &r.Organization,
			&r.Project, &r.User, &r.Operation, &r.Model, &r.Provider, &r.UpstreamModel, &stream, &r.Status, &r.Outcome,
			&r.ErrorCode, &r.FirstByteMS, &r.Used[usage.InputTokens], &r.Used[usage.OutputTokens], &r.Cost))
		r.Stream = stream != 0
		if waiting = append(waiting, r); len(waiting) == segment.GroupRows {
			flush()
		}
	}
	require.NoError(f.tb, rows.Err())
	if len(waiting) > 0 {
		flush()
	}
}

const measures = "requests, rejected, errors, input_tokens, cached_tokens, cache_write_tokens, input_audio_tokens, " +
	"output_tokens, reasoning_tokens, output_audio_tokens, images, cost, latency_9, latency_10, latency_11"

// measured are the sums of measures over exchanges, whose durations from 500 to 1499 ms are in three buckets.
func measured() string {
	const first, second = 687, 1099
	took := func(condition string, bounds ...any) string {
		return "SUM(CASE WHEN outcome = 'finished' AND " + fmt.Sprintf(condition, bounds...) + " THEN 1 ELSE 0 END)"
	}
	return "COUNT(*), 0, SUM(CASE WHEN status >= 500 THEN 1 ELSE 0 END), SUM(input_tokens), 0, 0, 0, SUM(output_tokens), 0, 0, 0, SUM(cost), " +
		took("duration <= %d", first) + ", " + took("duration > %d AND duration <= %d", first, second) + ", " +
		took("duration > %d", second)
}

// added are the sums of measures over aggregates.
func added() string { return "SUM(" + strings.ReplaceAll(measures, ", ", "), SUM(") + ")" }

// aggregates writes the sums by hour and key from the exchanges, and the sums of the other levels from these.
func (f *filler) aggregates() {
	const into = "INSERT INTO aggregates (level, start, organization, project, api_key, model, upstream_model, provider, operation, batch, " +
		measures + ") "
	const group = "organization, project, api_key, model, upstream_model, provider, operation, batch"
	f.exec(into, "SELECT 1, at / 3600000000 * 3600 AS hour, ", group, ", ", measured(), " FROM exchanges GROUP BY hour, ", group)
	const keyless = "organization, project, '', model, upstream_model, provider, operation, batch"
	const by = "organization, project, model, upstream_model, provider, operation, batch"
	f.exec(into, "SELECT 0, start, ", keyless, ", ", added(), " FROM aggregates WHERE level = 1 GROUP BY start, ", by)
	f.exec(into, "SELECT 2, start / 86400 * 86400 AS day, ", keyless, ", ", added(),
		" FROM aggregates WHERE level = 0 GROUP BY day, ", by)
	f.exec(into, "SELECT 3, start, '', '', '', model, '', provider, '', 0, ", added(),
		" FROM aggregates WHERE level = 0 GROUP BY start, model, provider")
	f.exec(into, "SELECT 4, start / 86400 * 86400 AS day, '', '', '', model, '', provider, '', 0, ", added(),
		" FROM aggregates WHERE level = 3 GROUP BY day, model, provider")
}

// sums writes the sums by minute, and those of keys and users.
func (f *filler) sums() {
	var rest []string // of the latencies, which have no default here
	var zeros []string
	for i := range 20 {
		if i < 9 || i > 11 {
			rest, zeros = append(rest, fmt.Sprint("latency_", i)), append(zeros, "0")
		}
	}
	f.exec("INSERT INTO minutes (start, model, provider, ", measures, ", ", strings.Join(rest, ", "),
		") SELECT at / 60000000 * 60 AS minute, model, provider, ", measured(), ", ", strings.Join(zeros, ", "),
		fmt.Sprint(" FROM exchanges WHERE at >= ", f.end.Add(-48*time.Hour).Truncate(time.Minute).UnixMicro()),
		" GROUP BY minute, model, provider")
	f.exec("INSERT INTO outcomes (width, start, served, errors, rejected, cancelled) SELECT 3600, at / 3600000000 * 3600 AS hour, ",
		"SUM(CASE WHEN status < 500 THEN 1 ELSE 0 END), SUM(CASE WHEN status >= 500 THEN 1 ELSE 0 END), 0, 0 ",
		"FROM exchanges GROUP BY hour")
	const into = "INSERT INTO sums (field, width, start, name, requests, errors, input_tokens, cached_tokens, output_tokens, cost) "
	const sums = "SUM(requests), SUM(errors), SUM(input_tokens), SUM(cached_tokens), SUM(output_tokens), SUM(cost)"
	f.exec(into, "SELECT 1, 3600, start, api_key, ", sums, " FROM aggregates WHERE level = 1 GROUP BY start, api_key")
	f.exec(into, "SELECT 2, 3600, at / 3600000000 * 3600 AS hour, user_id, COUNT(*), ",
		"SUM(CASE WHEN status >= 500 THEN 1 ELSE 0 END), SUM(input_tokens), 0, SUM(output_tokens), SUM(cost) ",
		"FROM exchanges GROUP BY hour, user_id")
	f.exec(into, "SELECT field, 86400, start / 86400 * 86400 AS day, name, ", sums,
		" FROM sums GROUP BY field, day, name")
	f.exec(fmt.Sprint("DELETE FROM sums WHERE width = 3600 AND start < ", f.end.AddDate(0, 0, -10).Unix()))
}
