"""The expected output of each operator, one relation after the other, in topological order. An operator that
SQL cannot express is noted with the reason, and so is everything that depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from controlplane.verification.graph_operators import least, ranks, sent_round, transitions
from controlplane.verification.problems import NotExpressibleError
from controlplane.verification.relations import Relations, Stream
from controlplane.verification.row_operators import (
    columns_chosen,
    distinct,
    filter_rows,
    flat_map,
    project,
    union,
)
from controlplane.verification.window_operators import join, latest, top_k, window
from domain.topology.spec import OperatorSpec

_KINDS: Final[dict[str, Callable[[Relations, OperatorSpec], Stream]]] = {
    "flat_map_regex": flat_map,
    "filter": filter_rows,
    "project": project,
    "union": union,
    "distinct": distinct,
    "sliding_window": window,
    "tumbling_window": window,
    "window_average": window,
    "latest": latest,
    "top_k": top_k,
    "windowed_join": join,
    "transitions": transitions,
    "components": sent_round,
    "least": least,
    "page_rank": sent_round,
    "ranks": ranks,
}
_OF_CYCLES: Final = (sent_round, least, ranks)
"""They look at the streams before the cycle themselves."""


def stream_build(relations: Relations, operator: OperatorSpec) -> None:
    """Add the stream of any operator but a source; its inputs must be there."""
    make = _KINDS.get(operator.kind)
    try:
        if make is None:
            raise NotExpressibleError(
                f"operator {operator.name} is of kind {operator.kind}, which only the engine can run"
            )
        if operator.name in relations.topology.component_of and make is not sent_round:
            raise NotExpressibleError(
                f"operator {operator.name} is in a cycle, and what goes round it depends on the epochs"
            )
        for given in operator.inputs if make not in _OF_CYCLES else ():
            relations.stream(given.source)
        made = make(relations, operator)
        ordered = made.ordered and _in_order(operator)
        relations.built[operator.name] = replace(
            made, ordered=ordered, hashed=_hashed(relations, operator, made)
        )
    except NotExpressibleError as error:
        relations.built[operator.name] = error


def _in_order(operator: OperatorSpec) -> bool:
    """Whether the rows of its partitions, one partition after the other, are in the order of the input."""
    return operator.parallelism == 1 or all(
        given.partitioning in ("one_to_one", "merge") for given in operator.inputs
    )


def _hashed(relations: Relations, operator: OperatorSpec, made: Stream) -> frozenset[str]:
    """The columns of an operator's rows that still tell to which of its partitions its input came."""
    came = relations.hashed(operator)
    if operator.kind == "flat_map_regex":
        return frozenset()  # its `key` is another one
    if operator.kind == "project":
        return frozenset(new for new, old in columns_chosen(operator).items() if old in came)
    if operator.kind == "windowed_join":
        return came & {operator.params.get("column", "key")}
    return came.intersection(made.columns)
