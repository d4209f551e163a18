"""Whether a query gives the same result when it is asked again: what DuckDB says of its functions.

DuckDB parses the query and says of each function whether equal arguments give equal results. Names that are
values in SQL although they look like columns (`current_timestamp`) are functions if they can be bound without
a table. What DuckDB does not tell is a doubt, not taken for safe.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import duckdb

_UNDERRATED: Final = {"current_localtime", "current_localtimestamp", "reservoir_quantile"}
"""Called consistent by DuckDB 2.0 although they ask the clock, or draw."""
_TABLE_FUNCTIONS: Final = {"unnest", "json_each", "json_tree", "repeat_row"}
"""Depend on their arguments only; DuckDB says nothing of table functions."""
_INPUT: Final = "input"


def query_doubt(query: str) -> str:
    """Why the results of a query over `input` may differ; empty if equal rows give equal results."""
    parsed = _parsed(query)
    if parsed is None:
        return "DuckDB does not say what the query consists of"
    known = {_INPUT} | {name for node in _nodes(parsed) for name in _common_tables(node)}
    for node in _nodes(parsed):
        found = _doubt_of(node, known)
        if found:
            return found
    return ""


def _doubt_of(node: dict[str, Any], tables: set[str]) -> str:
    kind = node.get("type")
    sample = node.get("sample")
    if isinstance(sample, dict) and not sample.get("repeatable"):
        return "it takes a random sample; add REPEATABLE (seed)"
    if kind == "BASE_TABLE" and (node.get("schema_name") or str(node["table_name"]).lower() not in tables):
        return f"it reads {node['table_name']}, which is not its input"
    if kind == "SHOW_REF":
        return "it describes tables"
    if kind == "COLUMN_REF" and len(node["column_names"]) == 1:
        name = str(node["column_names"][0])
        return f"{name} differs from one moment to the next" if _is_called(name.lower()) else ""
    if node.get("function_name"):
        arguments = node.get("arguments") or []
        return _function_doubt(str(node["function_name"]).lower(), len(arguments))
    return ""


@cache
def _function_doubt(name: str, arguments: int) -> str:
    stabilities, definitions = _functions().get(name, (frozenset(), ()))
    if name in _UNDERRATED or (name == "age" and arguments == 1) or stabilities - {"CONSISTENT"}:
        return f"{name}() may give something else each time"
    if definitions:
        return next((doubt for one in definitions if (doubt := _macro_doubt(name, one))), "")
    if not stabilities and name not in _TABLE_FUNCTIONS:
        return f"DuckDB does not say whether {name}() gives the same each time"
    return ""


def _macro_doubt(name: str, definition: str) -> str:
    parsed = _parsed(f"SELECT {definition}")
    if parsed is None:
        return f"DuckDB does not say whether {name}() gives the same each time"
    inner = next((doubt for node in _nodes(parsed) if (doubt := _doubt_of(node, set()))), "")
    return f"{name}() may give something else each time" if inner else ""


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """Empty; each call takes a cursor of it, as threads must."""
    return duckdb.connect(":memory:", config={"enable_external_access": "false"})


@cache
def _functions() -> dict[str, tuple[frozenset[str], tuple[str, ...]]]:
    """By name: what DuckDB says of the stability of each variant, and the definitions of macros."""
    found: dict[str, tuple[set[str], list[str]]] = {}
    with _database().cursor() as connection:
        rows = connection.execute(
            "SELECT function_name, stability, macro_definition FROM duckdb_functions()"
            " WHERE function_type IN ('scalar', 'aggregate', 'window', 'macro')"
        ).fetchall()
    for name, stability, definition in rows:
        stabilities, definitions = found.setdefault(str(name).lower(), (set(), []))
        if stability:
            stabilities.add(stability)
        if definition:
            definitions.append(definition)
    return {name: (frozenset(one), tuple(macros)) for name, (one, macros) in found.items()}


@cache
def _is_called(name: str) -> bool:
    """Whether a lone name is a function call in SQL, such as current_date; constants like `user` are not."""
    quoted = '"' + name.replace('"', '""') + '"'
    with _database().cursor() as connection:
        sql = "SELECT json_serialize_plan(?, optimize := false)"
        plan = json.loads(connection.execute(sql, [f"SELECT {quoted}"]).fetchall()[0][0])
    return any(node.get("expression_class") == "BOUND_FUNCTION" for node in _nodes(plan))


def _parsed(query: str) -> Any:
    with _database().cursor() as connection:
        text = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchall()[0][0]
    try:
        parsed = json.loads(text)
    except RecursionError:
        return None
    return None if parsed.get("error") else parsed


def _common_tables(node: dict[str, Any]) -> Iterator[str]:
    """Names that WITH gives to subqueries."""
    named = node.get("cte_map")
    for entry in named["map"] if isinstance(named, dict) else ():
        yield str(entry["key"]).lower()


def _nodes(root: Any) -> Iterator[dict[str, Any]]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
