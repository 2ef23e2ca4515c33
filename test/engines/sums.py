# Prints what DuckDB makes of the Parquet files of an export, as JSON.
import json
import sys

import duckdb

files = sys.argv[1]
db = duckdb.connect()
db.execute("SET TimeZone = 'UTC'")
db.execute(f"CREATE VIEW requests AS SELECT * FROM read_parquet('{files}', union_by_name = true)")


def all_of(query):
    return db.execute(query).fetchall()


used = ", ".join(f"CAST(sum({name}) AS BIGINT)" for name in sys.argv[2].split(","))
# As the ledger counts: without those that the gateway has rejected.
served = "CAST(sum(CASE WHEN outcome = 'rejected' THEN 0 ELSE requests END) AS BIGINT)"
json.dump({
    "sums": all_of(f"""SELECT strftime(date_trunc('hour', started_at), '%Y-%m-%dT%H:%M:%SZ'), api_key, model, provider,
        CAST(batch AS INT), {served}, {used}, CAST(sum(cost_usd) * 1000000000 AS BIGINT)
        FROM requests GROUP BY 1, 2, 3, 4, 5 HAVING {served} > 0 OR sum(cost_usd) > 0"""),
    "attempts": all_of("""SELECT a.provider, count(*), CAST(sum(CASE WHEN a.error <> '' THEN 1 ELSE 0 END) AS BIGINT)
        FROM (SELECT unnest(attempt_list) AS a FROM requests) GROUP BY 1 ORDER BY 1"""),
    "limits": all_of("""SELECT l.rule, CAST(sum(l.settled) AS BIGINT)
        FROM (SELECT unnest(limits) AS l FROM requests) GROUP BY 1 ORDER BY 1"""),
    "found": all_of("SELECT count(*) FROM requests WHERE list_contains(guards, 'mask pii in the request: 1')"),
    "one": all_of("""SELECT CAST(started_at AS VARCHAR), trace_id, CAST(cost_usd AS VARCHAR), stream
        FROM requests WHERE id = 'record-7'"""),
    "nulls": all_of("SELECT count(*) FROM requests WHERE id IS NULL OR error_code IS NULL OR images IS NULL OR plan IS NULL"),
    "fields": dict(all_of(f"""SELECT DISTINCT name, field_id FROM parquet_schema('{files}')
        WHERE name IN ('id', 'started_at', 'cost_usd', 'cache_write_hour_tokens', 'attempt_list', 'rule')""")),
}, sys.stdout)
