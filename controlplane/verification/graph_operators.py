"""Operators on graphs, recomputed from all their edges at once: what went round a cycle does not matter."""

# Queries are put together from names that the specification has validated and that are quoted here.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Iterable

from controlplane.verification.problems import NotExpressibleError
from controlplane.verification.relations import Relations, Stream, quoted
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


def components(relations: Relations, operator: OperatorSpec) -> Stream:
    """Never: how many messages there are depends on the epochs."""
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
