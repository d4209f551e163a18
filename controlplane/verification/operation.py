"""A verification that was asked for as an operation: a process of its own carries it out.

`result` of the operation: `progress`, `done` of so many `steps`, while it runs; then `epoch`, up to which was
compared, `rows` found, `queries` compared and those of them that are `exact`, and a sentence for each that is
`wrong` or could not be compared, or only in part (`left_out`). Where the guarantee is bounded, a query is
only wrong if its outputs cannot be read: `deviation` is the share of the expected rows that are missing,
wrong or too many, and `deviating` has a sentence for each query of which some are.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from controlplane.errors import Missing
from controlplane.events.choices import OPERATION_ENDED
from controlplane.events.models import Operation
from controlplane.events.operations import (
    operation_fail,
    operation_progress,
    operation_start,
    operation_succeed,
)
from controlplane.topologies.choices import Guarantee
from controlplane.topologies.selectors import topology_get
from controlplane.verification.comparison import QueryResult
from controlplane.verification.problems import VerificationError
from controlplane.verification.subject import spec_that_ran
from controlplane.verification.verifying import Verification, topology_verify
from domain.health.shape import counted
from host.scratch import empty_directory

TOLD: Final = 20
"""Queries that are named in an outcome; more are counted."""
FAULTS: Final = ("missing", "duplicate", "unexpected", "different")


def operation_verify(operation_id: str) -> None:
    """Verify what the operation names, unless it has ended. Outputs that are not exact end it as failed."""
    operation = Operation.objects.get(pk=operation_id)
    if operation.state in OPERATION_ENDED:
        return
    os.nice(10)  # queries go first
    try:
        topology = topology_get(operation.target)
        spec = spec_that_ran(topology)
        with empty_directory(settings.RESURGE.run / "verify") as scratch:
            verification = topology_verify(
                spec=spec,
                home=settings.RESURGE.home,
                outputs=Path(settings.RESURGE.outputs),
                renewed=topology.renewed,
                examples=0,
                progress=operation_progress(operation),
                scratch=scratch,
            )
        if topology_get(operation.target, spec=False).deployed_at != topology.deployed_at:
            operation_fail(operation=operation, error="the topology was deployed again meanwhile: ask again")
            return
    except (VerificationError, Missing) as error:
        operation_fail(operation=operation, error=str(error))
        return
    result, wrong = outcome(verification, bounded=spec.get("guarantee") == Guarantee.BOUNDED)
    if wrong:
        operation_start(operation=operation, result=result)
        operation_fail(operation=operation, error=wrong)
    else:
        operation_succeed(operation=operation, result=result)


def outcome(verification: Verification, *, bounded: bool = False) -> tuple[dict[str, Any], str]:
    """What the operation's `result` says, and what is wrong: empty where all that was compared is exact, or
    could be compared at all where the guarantee is bounded."""
    compared = [query for query in verification.queries if not query.skipped]
    inexact = [query for query in compared if not query.clean]
    wrong = [query for query in inexact if query.error] if bounded else inexact
    left_out = [f"{query.query}: {query.skipped}" for query in verification.queries if query.skipped]
    beyond = [f"{query.query}: {query.beyond}" for query in compared if query.beyond]
    sentences = [_sentence(query) for query in wrong]
    result: dict[str, Any] = {
        "progress": None,
        "epoch": verification.epoch,
        "rows": sum(query.found for query in compared),
        "queries": len(compared),
        "exact": len(compared) - len(inexact),
        "wrong": _first(sentences),
        "left_out": _first(left_out + beyond),
    }
    if bounded:
        result["deviation"] = round(verification.deviation, 6)
        deviating = [query for query in inexact if not query.error]
        result["deviating"] = _first([_sentence(query) + _counts(query) for query in deviating])
    if wrong:
        are = "is" if len(wrong) == 1 else "are"
        fault = "not comparable" if bounded else "not exact"
        what = f"{len(wrong)} of {counted(len(compared), 'query', 'queries')} {are} {fault}"
        return result, f"{what}: {'; '.join(sentences[:3])}"
    if not compared:
        return result, f"no query can be compared: {'; '.join(left_out[:3]) or 'the topology has none'}"
    return result, ""


def _sentence(query: QueryResult) -> str:
    if query.error:
        return f"{query.query}: {query.error}"
    faults = ", ".join(f"{getattr(query, name):,} {name}" for name in FAULTS if getattr(query, name))
    return f"{query.query}: {faults} (of {query.expected:,} rows)"


def _counts(query: QueryResult) -> str:
    """What was counted in all, where rows have counts."""
    return f", counted {query.counts:,} of {query.should_count:,}" if query.should_count else ""


def _first(sentences: list[str]) -> list[str]:
    more = len(sentences) - TOLD
    return [*sentences[:TOLD], f"and {more} more"] if more > 0 else sentences
