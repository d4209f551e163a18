"""Operators on windows, in SQL."""

# Queries are put together from names that the specification has validated and that are quoted here.
# ruff: noqa: S608

from __future__ import annotations

from controlplane.verification.problems import NotExpressibleError
from controlplane.verification.relations import (
    MEAN,
    SECOND,
    WINDOW_COLUMNS,
    Relations,
    Stream,
    floor,
    quoted,
)
from domain.topology.spec import OperatorSpec


def window(relations: Relations, operator: OperatorSpec) -> Stream:
    given = [relations.stream(name.source) for name in operator.inputs]
    parts = relations.parts(operator, ["key"])
    value = operator.params["value"] if operator.kind == "window_average" else None
    for stream in given:
        relations.need(operator, stream, "key")
        relations.need_time(operator, stream, "ts")
        relations.need(operator, stream, *([value] if value else []))
    size = round(operator.params["size_s"] * SECOND)
    slide = round(operator.params.get("slide_s", operator.params["size_s"]) * SECOND)
    rows = " UNION ALL ".join(
        f"SELECT ts, key, {part} AS _part, {quoted(value) if value else 0} AS value FROM {stream.relation}"
        for stream, part in zip(given, parts or ["0"] * len(given), strict=True)
    )
    # First per slide and offset within it (exact for any size), then each to the windows it lies in: they
    # end at multiples of the slide.
    rest = size % slide
    part = f"CASE WHEN ts - {floor('ts', slide)} >= {slide - rest} THEN 0 ELSE 1 END" if rest else "0"
    return relations.table(
        operator,
        f"""
        WITH counted AS (
            SELECT {floor("ts", slide)} AS pane, {part} AS part, key, _part, count(*) AS n,
                sum(value) AS total
            FROM ({rows}) WHERE value IS NOT NULL GROUP BY ALL
        ), placed AS (
            SELECT pane + (k + 1) * {slide} - {size} AS window_start, key, _part, n, total
            FROM counted, range({-(-size // slide)}) lag(k)
            WHERE k < {size // slide} OR part = 0
        )
        SELECT window_start, window_start + {size} AS window_end, key, _part, sum(n)::BIGINT AS count,
            CASE WHEN abs(sum(total)) < {2**53} THEN sum(total)::DOUBLE / sum(n)::DOUBLE
                ELSE {MEAN}(sum(total)::HUGEINT, sum(n)::BIGINT) END AS average
        FROM placed WHERE {relations.closed(f"window_start + {size}")} GROUP BY ALL
        """,
        (*WINDOW_COLUMNS[:3], "average", "count") if value else WINDOW_COLUMNS,
        parted=parts is not None,
    )


def latest(relations: Relations, operator: OperatorSpec) -> Stream:
    if operator.parallelism > 1:
        raise NotExpressibleError(
            f"the partitions of operator {operator.name} (latest) each have a last window of their own"
        )
    changes = " UNION ALL ".join(
        f"SELECT * FROM {_changes(relations, operator, given.source)}" for given in operator.inputs
    )
    return Stream(relations.view(f"s_{operator.name}", changes), WINDOW_COLUMNS)


def _changes(relations: Relations, operator: OperatorSpec, source: str) -> str:
    """The changes from window to window of one aggregate, in a table that its subscribers share."""
    stream = relations.stream(source)
    if stream.parted:
        raise NotExpressibleError(
            f"the partitions of {source} each have counts of their own of the same keys"
        )
    relations.need(operator, stream, *WINDOW_COLUMNS)
    relations.need_time(operator, stream, "window_end")
    columns = ", ".join(WINDOW_COLUMNS)
    name = quoted(f"c_{source}")
    relations.database.execute(
        f"""
        CREATE TABLE IF NOT EXISTS {name} AS
        WITH ranked AS (
            SELECT {columns}, dense_rank() OVER (ORDER BY window_end) AS turn FROM {stream.relation}
        ), placed AS (
            SELECT *, lag(turn) OVER k AS before, lag(count) OVER k AS was, lead(turn) OVER k AS after
            FROM ranked WINDOW k AS (PARTITION BY key ORDER BY turn)
        ), turns AS (SELECT DISTINCT turn, window_start, window_end FROM ranked)
        SELECT {columns} FROM placed WHERE before IS DISTINCT FROM turn - 1 OR was <> count
        UNION ALL
        SELECT t.window_start, t.window_end, p.key, 0::BIGINT AS count
        FROM placed p JOIN turns t ON t.turn = p.turn + 1 WHERE p.after IS DISTINCT FROM p.turn + 1
        """
    )
    return name


def top_k(relations: Relations, operator: OperatorSpec) -> Stream:
    parts = relations.parts(operator, ["window_end"])
    k = operator.params.get("k", 10)
    ranked = []
    for given, part in zip(operator.inputs, parts or ["0"] * len(operator.inputs), strict=True):
        stream = relations.stream(given.source)
        relations.need(operator, stream, *WINDOW_COLUMNS)
        relations.need_time(operator, stream, "window_end")
        columns = f"window_start, window_end, key, {part} AS _part"
        rows = f"SELECT {columns}, count FROM {stream.relation}"
        if operator.params.get("add_up"):
            rows = f"SELECT {columns}, sum(count)::BIGINT AS count FROM {stream.relation} GROUP BY ALL"
        ranked.append(
            f"(SELECT * FROM ({rows}) QUALIFY row_number() OVER"
            f" (PARTITION BY window_start, window_end, _part ORDER BY count DESC, key) <= {k})"
        )
    return relations.table(operator, " UNION ALL ".join(ranked), WINDOW_COLUMNS, parted=parts is not None)


def join(relations: Relations, operator: OperatorSpec) -> Stream:
    column, time = operator.params.get("column", "key"), operator.params.get("time", "ts")
    relations.same_key_same_partition(operator, [column])
    left, right = (relations.stream(given.source) for given in operator.inputs)
    if "size_s" not in operator.params:
        return _same_windows(relations, operator, column, left, right)
    for stream in (left, right):
        relations.need(operator, stream, column)
        relations.need_time(operator, stream, time)
    size = round(operator.params["size_s"] * SECOND)
    start = floor(f"l.{quoted(time)}", size)
    selected = [f"{start} AS window_start", f"{start} + {size} AS window_end", f"l.{quoted(column)}"]
    names = ["window_start", "window_end", column]
    for side, stream in (("left", left), ("right", right)):
        for name in stream.columns:
            if name != column:
                selected.append(f"{side[0]}.{quoted(name)} AS {quoted(f'{side}_{name}')}")
                names.append(f"{side}_{name}")
    return relations.table(
        operator,
        f"SELECT {', '.join(selected)} FROM {left.relation} l JOIN {right.relation} r"
        f" ON l.{quoted(column)} = r.{quoted(column)} AND {start} = {floor(f'r.{quoted(time)}', size)}"
        f" WHERE {relations.closed(f'{start} + {size}')}",
        tuple(names),
    )


def _same_windows(
    relations: Relations, operator: OperatorSpec, column: str, left: Stream, right: Stream
) -> Stream:
    equal = ("window_start", "window_end", column)
    names, selected = list(equal), [f"l.{quoted(name)}" for name in equal]
    for side, stream in (("left", left), ("right", right)):
        relations.need(operator, stream, *equal)
        relations.need_time(operator, stream, "window_end")
        for name in stream.columns:
            if name not in equal:
                selected.append(f"{side[0]}.{quoted(name)} AS {quoted(f'{side}_{name}')}")
                names.append(f"{side}_{name}")
    same = " AND ".join(f"l.{quoted(name)} = r.{quoted(name)}" for name in equal)
    query = f"SELECT {', '.join(selected)} FROM {left.relation} l JOIN {right.relation} r ON {same}"
    return relations.table(operator, query, tuple(names))
