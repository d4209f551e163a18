"""Which queries are known to give the same result each time, and why others are not."""

from __future__ import annotations

import duckdb
import pytest

from spark_jobs.operators.catalogue import OperatorCatalogue
from spark_jobs.operators.volatility import query_doubt


@pytest.mark.parametrize(
    "query",
    [
        "SELECT key, count(*) AS n FROM input GROUP BY key",
        "SELECT user, current_user, pi() FROM input",  # constants in SQL
        "SELECT age(ts, ts), fmod(ts, 3), split_part(key, 'a', 1), key || 'x', ts::VARCHAR FROM input",
        "SELECT max(ts) FILTER (WHERE key LIKE 'a%'), list_transform([1], lambda x: x + 1) FROM input",
        "SELECT row_number() OVER (ORDER BY ts), lag(key) OVER () FROM INPUT",
        "WITH a AS (SELECT * FROM input), b AS (SELECT * FROM A) SELECT * FROM b JOIN a USING (key)",
        "SELECT unnest([1, 2]), x FROM input, range(3) t(x)",
        "SELECT * FROM input TABLESAMPLE reservoir(20%) REPEATABLE (7)",
        "SELECT exists(SELECT 1 FROM input), {'a': 1}.a, json_extract(key, '$.a') FROM input",
    ],
)
def test_no_doubt(query: str) -> None:
    assert query_doubt(query) == ""


@pytest.mark.parametrize(
    ("query", "doubt"),
    [
        ("SELECT Random() FROM input", "random() may give something else each time"),
        ("SELECT now() AS at, * FROM input", "now() may give something else each time"),
        ("SELECT uuid() FROM input", "uuid() may give something else each time"),
        ("SELECT current_timestamp FROM input", "current_timestamp differs from one moment to the next"),
        ("SELECT localtimestamp FROM input", "localtimestamp differs from one moment to the next"),
        ("SELECT ago(INTERVAL 1 DAY) FROM input", "ago() may give something else each time"),
        ("SELECT age(ts) FROM input", "age() may give something else each time"),
        ("SELECT reservoir_quantile(ts, 0.5, 9) FROM input", "reservoir_quantile() may give something"),
        ("SELECT * FROM input ORDER BY random()", "random() may give something else each time"),
        ("FROM input LIMIT (random() * 9)::INT", "random() may give something else each time"),
        ("SELECT list_transform([1], lambda x: x + random()) FROM input", "random() may give"),
        ("SELECT * FROM (SELECT today() AS day FROM input)", "today() may give something else each time"),
        ("WITH a AS (SELECT now() AS t) SELECT * FROM a", "now() may give something else each time"),
        ("SELECT * FROM input USING SAMPLE 10", "it takes a random sample"),
        ("SELECT * FROM duckdb_settings()", "DuckDB does not say whether duckdb_settings() gives"),
        ("SELECT * FROM pg_catalog.pg_class", "it reads pg_class, which is not its input"),
        ("SELECT no_such(key) FROM input", "DuckDB does not say whether no_such() gives the same"),
        ("SUMMARIZE input", "it describes tables"),
        ("PIVOT input ON key", "DuckDB does not say what the query consists of"),
        (f"FROM {'(FROM ' * 900}input{')' * 900}", "DuckDB does not say what the query consists of"),
    ],
)
def test_doubts(query: str, doubt: str) -> None:
    assert query_doubt(query).startswith(doubt)


def test_every_function_that_duckdb_calls_volatile_is_one() -> None:
    with duckdb.connect(":memory:") as connection:
        listed = connection.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability <> 'CONSISTENT'"
        ).fetchall()
    assert len(listed) > 20
    for (name,) in listed:
        assert query_doubt(f"SELECT {name}() FROM input"), name  # noqa: S608 - DuckDB's own names


def test_kinds_without_code_of_the_authors_are_deterministic() -> None:
    catalogue = OperatorCatalogue()
    doubted = {kind for kind in catalogue.kinds() if kind != "sql" and catalogue.doubt(kind, {})}
    assert doubted == {"map", "python"}
    assert catalogue.doubt("sql", {"query": "SELECT random() FROM input"}).startswith("random()")
