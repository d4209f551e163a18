"""Operators on single rows, in SQL."""

# Queries are put together from names that the specification has validated and that are quoted here.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

import pyarrow as pa

from controlplane.verification.problems import NotExpressibleError
from controlplane.verification.relations import (
    SECOND,
    Relations,
    Stream,
    floor,
    literal,
    quoted,
)
from domain.topology.spec import OperatorSpec
from spark_jobs.operators.matching import pattern_matches

_SYMBOLS = {"==": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_FUNCTIONS = {"contains": "contains", "starts_with": "starts_with", "ends_with": "suffix"}


def flat_map(relations: Relations, operator: OperatorSpec) -> Stream:
    params = operator.params
    given = relations.stream(relations.only_input(operator))
    field_name = params.get("field", "text")
    relations.need(operator, given, field_name, "ts")
    matches, by_row = f"m_{operator.name}", field_name in given.texts
    if by_row:
        lookup = f"SELECT _row, text FROM {given.texts[field_name]} WHERE text IS NOT NULL"
    else:
        lookup = f"SELECT DISTINCT {quoted(field_name)}, {quoted(field_name)} FROM {given.relation}"
    looked_up = relations.database.execute(lookup).fetchall()
    found, keys = pattern_matches(params["pattern"], params.get("group"), [text for _, text in looked_up])
    places = [looked_up[index][0] for index in found]
    # The position of each among the matches of its text.
    positions = [position for _, group in groupby(found) for position, _ in enumerate(group)]
    if params.get("fold") == "lower":
        keys = [key.lower() for key in keys]
    place_type = pa.int64() if by_row else pa.string()
    table = pa.Table.from_arrays(
        [pa.array(places, place_type), pa.array(positions, pa.int64()), pa.array(keys, pa.string())],
        names=["place", "pos", "key"],
    )
    relations.database.register("arriving", table)
    relations.database.execute(f"CREATE TABLE {matches} AS SELECT * FROM arriving")
    relations.database.unregister("arriving")
    order = "u._n, u._pos * 1000000 + m.pos AS _pos, " if given.ordered else ""
    order += "u._part, " if given.parted else ""
    return relations.row_view(
        operator,
        f"SELECT {order}u.ts, m.key FROM {given.relation} u"
        f" JOIN {matches} m ON m.place = u.{'_row' if by_row else quoted(field_name)}",
        ("ts", "key"),
        given,
    )


def filter_rows(relations: Relations, operator: OperatorSpec) -> Stream:
    given = relations.stream(relations.only_input(operator))
    params = operator.params
    relations.need(operator, given, params["column"])
    column, comparison, value = quoted(params["column"]), params["comparison"], params.get("value")
    if comparison in _SYMBOLS:
        condition = f"{column} {_SYMBOLS[comparison]} {literal(value)}"
    elif comparison in _FUNCTIONS:
        condition = f"{_FUNCTIONS[comparison]}({column}, {literal(value)})"
    elif comparison in ("in", "not_in"):
        listed = ", ".join(literal(member) for member in value or ())
        condition = f"{column} {'IN' if comparison == 'in' else 'NOT IN'} ({listed})"
    else:
        condition = f"{column} IS {'NULL' if comparison == 'is_null' else 'NOT NULL'}"
    view = relations.view(f"s_{operator.name}", f"SELECT * FROM {given.relation} WHERE {condition}")
    parted = relations.keeps_parts(operator, given)
    return Stream(view, given.columns, given.ordered, given.texts, given.times, parted)


def columns_chosen(operator: OperatorSpec) -> dict[str, str]:
    """Of a `project`: new names to old."""
    columns = operator.params["columns"]
    return dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns}


def project(relations: Relations, operator: OperatorSpec) -> Stream:
    given = relations.stream(relations.only_input(operator))
    chosen = columns_chosen(operator)
    relations.need(operator, given, *chosen.values())
    if len({name.casefold() for name in chosen}) < len(chosen):
        raise NotExpressibleError(
            f"operator {operator.name} has columns whose names differ in case only, which are one in SQL"
        )
    texts = {new: given.texts[old] for new, old in chosen.items() if old in given.texts}
    hidden = [*(["_n", "_pos"] if given.ordered else []), *(["_row"] if texts else [])]
    hidden += ["_part"] if given.parted else []
    selected = [*hidden, *(f"{quoted(old)} AS {quoted(new)}" for new, old in chosen.items())]
    view = relations.view(f"s_{operator.name}", f"SELECT {', '.join(selected)} FROM {given.relation}")
    times = frozenset(new for new, old in chosen.items() if old in given.times)
    parted = relations.keeps_parts(operator, given)
    return Stream(view, tuple(chosen), given.ordered, texts, times, parted)


def union(relations: Relations, operator: OperatorSpec) -> Stream:
    streams = [relations.stream(given.source) for given in operator.inputs]
    columns = streams[0].columns
    selected = ", ".join(quoted(name) for name in columns)
    for stream in streams:
        relations.need(operator, stream, *columns)
    view = relations.view(
        f"s_{operator.name}",
        " UNION ALL ".join(f"SELECT {selected} FROM {stream.relation}" for stream in streams),
    )
    times = frozenset[str].intersection(*(stream.times for stream in streams))
    return Stream(view, columns, times=times)


def distinct(relations: Relations, operator: OperatorSpec) -> Stream:
    given = relations.row_input(operator)
    columns = list(operator.params.get("columns", ["key"]))
    relations.need(operator, given, *columns)
    relations.same_key_same_partition(operator, columns)
    groups = [quoted(name) for name in columns]
    size = operator.params.get("size_s")
    if size:
        relations.need_time(operator, given, "ts")
        groups.append(floor("ts", round(size * SECOND)))
    return relations.row_view(
        operator,
        f"SELECT * FROM {given.relation} QUALIFY row_number() OVER"
        f" (PARTITION BY {', '.join(groups)} ORDER BY _n, _pos) = 1",
        given.columns,
        given,
    )
