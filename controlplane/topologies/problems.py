"""Problems that drivers and workers report, each with the row that caused it: bounded, and masked like the
rows of results (write side)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec
import structlog
from django.conf import settings
from django.utils import timezone

from controlplane.events.choices import EventKind
from controlplane.events.services import event_publish, writing
from controlplane.topologies.choices import Severity
from controlplane.topologies.models import Problem, Topology
from controlplane.topologies.representation import problem_change
from domain.masking import row_masked
from domain.messages import ProblemReport
from domain.values import LARGEST_COUNT

log = structlog.get_logger(__name__)

LONGEST: Final = 1_000
"""Bytes of a row's JSON."""
LONGEST_TEXT: Final = 10_000
_rows: Final = msgspec.json.Decoder(dict[str, str | int | float | bool | None])
"""Made here, before there are threads (docs/decisions/0013)."""


@writing
def problem_record(*, report: ProblemReport) -> None:
    """Show a problem; one that is already there is counted and moves up."""
    topology = Topology.objects.filter(name=report.topology).first()
    if topology is None and report.topology:
        log.warning("problem of an unknown topology", topology=report.topology, what=report.what)
        return
    now = timezone.now()
    where, what = report.where[:255], report.what[:LONGEST_TEXT]
    row = row_read(report.row, settings.RESURGE.mask_columns)
    problem = (
        Problem.objects.select_for_update()
        .filter(topology=topology, where=where, what=what, severity=report.severity)
        .first()
    )
    if problem is None:
        problem = Problem.objects.create(
            topology=topology,
            at=now,
            severity=Severity(report.severity),
            where=where,
            what=what,
            hint=report.hint[:LONGEST_TEXT],
            count=report.count,
            row=row,
        )
    else:
        problem.at = now
        problem.row = row or problem.row
        problem.hint = report.hint[:LONGEST_TEXT]
        problem.count = min(problem.count + report.count, LARGEST_COUNT)
        problem.save(update_fields=["at", "hint", "count", "row"])
    event_publish(
        kind=EventKind.PROBLEM_RAISED,
        topology=report.topology or None,
        changes=[problem_change(problem, topology=topology.name if topology else None)],
        reason=report.what[:200],
    )


def row_read(text: str, masked: Collection[str]) -> dict[str, Any] | None:
    """The row that a driver told; None for none, and for what is no row of values in this size."""
    if not text or len(text.encode(errors="replace")) > LONGEST or "\\u0000" in text:
        return None
    try:
        row = _rows.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    return row_masked(row, masked)
