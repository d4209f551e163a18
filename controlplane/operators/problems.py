"""The problems of one operator, each with what is known of the rows that caused it."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from django.conf import settings
from django.db.models import Q

from controlplane.operators.refused_rows import Prepared, TopologyFiles
from controlplane.topologies.models import Problem
from controlplane.topologies.operators import operator_find
from domain.masking import row_masked
from domain.topology import Topology as TopologyGraph
from domain.topology.spec import OperatorSpec
from spark_jobs.sources.problems import CUT, NOT_USED

MOST: Final = 100


class OperatorProblem(msgspec.Struct, frozen=True, kw_only=True):
    """row: the one that it failed on, masked. rows: sentences about those that were not used. known: what is
    known of the rows that caused it, in a sentence."""

    id: int
    at: str
    first_at: str
    severity: str
    where: str
    what: str
    hint: str
    count: int
    row: dict[str, Any] | None
    rows: list[str]
    known: str


def operator_problems(*, topology: str, operator: str) -> list[OperatorProblem]:
    """The newest first. Raises `Missing`."""
    row, graph, found = operator_find(topology, operator)
    files = TopologyFiles(settings.RESURGE.home, row.name)
    prepared = None if found.inputs else files.prepared(found.name, only=_is_only_source(graph))
    problems = Problem.objects.filter(_of(found, prepared), topology=row)
    return [
        _told(problem, found, files, prepared)
        for problem in problems[:MOST]
        if _concerns(problem, found, prepared)
    ]


def _is_only_source(graph: TopologyGraph) -> bool:
    return sum(not operator.inputs for operator in graph.operators) == 1


def _of(operator: OperatorSpec, prepared: Prepared | None) -> Q:
    """What may concern an operator: its name, one of its partitions or their replicas, the file it reads."""
    name = operator.name
    wanted = (
        Q(where=name)
        | Q(where__startswith=f"{name}:")
        | Q(where__startswith=f"{name}[")
        | Q(where__startswith=f"replica of {name}[")
    )
    return wanted | Q(where__in=_files_of(operator, prepared))


def _files_of(operator: OperatorSpec, prepared: Prepared | None) -> list[str]:
    if operator.inputs:
        return []
    known = [operator.params.get("path"), prepared and prepared.source, prepared and prepared.path]
    return [str(one) for one in known if one]


def _concerns(problem: Problem, operator: OperatorSpec, prepared: Prepared | None) -> bool:
    """SQLite does not tell capital letters from small ones where it compares beginnings."""
    place = re.fullmatch(r"(?:replica of )?([A-Za-z]\w*)(?:\[\d+\])?(?::.*)?", problem.where, re.A | re.S)
    if place is not None:
        return place[1] == operator.name
    return problem.where in _files_of(operator, prepared)


def _told(
    problem: Problem, operator: OperatorSpec, files: TopologyFiles, prepared: Prepared | None
) -> OperatorProblem:
    row = None if problem.row is None else row_masked(problem.row, settings.RESURGE.mask_columns)
    rows, known = _evidence(problem, operator, files, prepared)
    return OperatorProblem(
        id=problem.pk,
        at=_iso(problem.at),
        first_at=_iso(problem.first_at),
        severity=problem.severity,
        where=problem.where,
        what=problem.what,
        hint=problem.hint,
        count=problem.count,
        row=row,
        rows=rows,
        known=known,
    )


def _evidence(
    problem: Problem, operator: OperatorSpec, files: TopologyFiles, prepared: Prepared | None
) -> tuple[list[str], str]:
    if problem.row is not None:
        return [], "The operator fails in the same way if it gets only this row of its input."
    if NOT_USED in problem.what:
        rows = files.rejected(prepared) if prepared else []
        return rows, f"Rows of {problem.where} that are not used, numbered from 0." if rows else _AWAY
    if problem.what == CUT:
        rows = files.late(operator.name)
        return rows, "The newest of the rows that were left out." if rows else _AWAY
    return [], "It is not known which row caused it."


_AWAY: Final = "The list of these rows is on the host of the driver, not on this one."


def _iso(at: Any) -> str:
    return str(at.isoformat()).replace("+00:00", "Z")
