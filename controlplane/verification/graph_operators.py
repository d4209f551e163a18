"""Operators on graphs, recomputed from all their edges at once: what went round a cycle does not matter."""

# Queries are put together from names that the specification has validated and that are quoted here.
# ruff: noqa: S608

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace

from controlplane.verification.problems import NotExpressibleError
from controlplane.verification.relations import SECOND, Relations, Stream, quoted
from domain.topology.spec import OperatorSpec


def transitions(relations: Relations, operator: OperatorSpec) -> Stream:
    """Each row with the one before it in the same partition."""
    given = relations.stream(relations.only_input(operator))
    column = operator.params.get("column", "key")
    relations.need(operator, given, column, "ts")
    kept = relations.keeps_parts(operator, given)
    if not (kept or (given.ordered and operator.parallelism == 1)):
        raise NotExpressibleError(
            f"operator {operator.name} ({operator.kind}) depends on the order of its input, which "
            "is not defined"
        )
    text, part = quoted(column), "_part" if kept else "0"
    view = relations.view(
        f"s_{operator.name}",
        f'SELECT ts, key, "to" FROM (SELECT ts, {text} AS "to",'
        f" lag({text}) OVER (PARTITION BY {part} ORDER BY _n, _pos) AS key"
        f' FROM {given.relation}) WHERE key IS NOT NULL AND "to" IS NOT NULL',
    )
    return Stream(view, ("ts", "key", "to"))


def sent_round(relations: Relations, operator: OperatorSpec) -> Stream:
    """Never: which rows `components` and `page_rank` send in an epoch depends on the epochs."""
    raise NotExpressibleError(
        f"what operator {operator.name} ({operator.kind}) sends round its cycle depends on the epochs"
    )


def least(relations: Relations, operator: OperatorSpec) -> Stream:
    """The component of each node, once the input has ended."""
    source = relations.topology.by_name[relations.only_input(operator)]
    if source.kind != "components":
        raise NotExpressibleError(
            f"operator {operator.name} ({operator.kind}) is recomputed for the labels of components only"
        )
    relations.same_key_same_partition(operator, ["key"])
    edges = [relations.stream(one.source) for one in source.inputs if not one.feedback]
    labels: dict[str, str] = {}
    if relations.extent.final:
        for stream in edges:
            relations.need(source, stream, "key", "to")
        query = " UNION ".join(f'SELECT key, "to" FROM {one.relation} WHERE key <> "to"' for one in edges)
        labels = component_labels(relations.database.execute(query).fetchall())
    relations.rows_table(f"least_{operator.name}", {"key": list(labels), "label": list(labels.values())})
    selected = "key::VARCHAR AS key, label::VARCHAR AS label"
    return relations.table(operator, f"SELECT {selected} FROM least_{operator.name}", ("key", "label"))


def ranks(relations: Relations, operator: OperatorSpec) -> Stream:
    """The ranks after each window; before the input has ended, the last windows may wait for others."""
    source = relations.topology.by_name[relations.only_input(operator)]
    if source.kind != "page_rank":
        raise NotExpressibleError(
            f"operator {operator.name} ({operator.kind}) is recomputed behind page_rank only"
        )
    for one in (source, operator):
        relations.same_key_same_partition(one, ["key"])
    steps: list[tuple[int, str, str]] = []
    for stream in [relations.stream(one.source) for one in source.inputs if not one.feedback]:
        relations.need(source, stream, "ts", "key", "to")
        steps += relations.database.execute(f'SELECT ts, key, "to" FROM {stream.relation}').fetchall()
    size = round(source.params["size_s"] * SECOND)
    last = (relations.extent.watermark or 0) // size * size
    found = page_ranks(steps, size=size, rounds=int(source.params.get("rounds", 10)), last=last)
    columns = {name: [row[at] for row in found] for at, name in enumerate(("window_end", "key", "rank"))}
    relations.rows_table(f"ranks_{operator.name}", columns)
    selected = "window_end::BIGINT AS window_end, key::VARCHAR AS key, rank::BIGINT AS rank"
    names = ("window_end", "key", "rank")
    made = relations.table(operator, f"SELECT {selected} FROM ranks_{operator.name}", names)
    return replace(made, waits=not relations.extent.final)


def page_ranks(
    steps: Iterable[tuple[int, str, str]], *, size: int, rounds: int, last: int
) -> list[tuple[int, str, int]]:
    """(window end, node, rank in millionths) after each window up to `last`, of nodes that an edge leads to.
    steps: (time, from, to); size: of a window. Times in microseconds."""
    waiting = sorted(steps)
    weights: Counter[tuple[str, str]] = Counter()
    leaving: Counter[str] = Counter()
    known: dict[str, int] = {}
    found: list[tuple[int, str, int]] = []
    at = 0
    for end in range(waiting[0][0] // size * size + size if waiting else last + 1, last + 1, size):
        while at < len(waiting) and waiting[at][0] < end:
            _, one, other = waiting[at]
            weights[one, other] += 1
            leaving[one] += 1
            at += 1
        for _ in range(rounds):
            passed: defaultdict[str, int] = defaultdict(int)
            for (one, other), weight in weights.items():
                passed[other] += 17 * known.get(one, 150_000) * weight // (20 * leaving[one])
            known = {node: 150_000 + amount for node, amount in passed.items()}
        found += [(end, node, rank) for node, rank in sorted(known.items())]
    return found


def component_labels(edges: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Node -> the least name in its connected component, by union and find."""
    above: dict[str, str] = {}

    def find(node: str) -> str:
        above.setdefault(node, node)
        while above[node] != node:
            above[node] = above[above[node]]
            node = above[node]
        return node

    for one, other in edges:
        first, second = sorted((find(one), find(other)))
        above[second] = first
    return {node: find(node) for node in sorted(above)}
