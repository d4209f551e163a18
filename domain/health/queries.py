"""The health of a query: whether it gives results, in time. Pure.

Whether it is available is the verdict of `domain.availability`; here it gets its word, and the latency its
limit. The number beside a limit is always the one that was judged by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from domain.availability import Policy
from domain.health.shape import Health, Tone

NOT_RUNNING = frozenset({"draft", "stopped"})
"""States of a topology in which nothing of it runs or is to run."""
MEASURED = frozenset({"deploying", "running", "degraded", "recovering", "stopping"})
"""States of a topology in which rates and latencies are measured."""
JUDGED = MEASURED | {"failed"}
"""States of a topology in which its queries count as available or not: those of one that is paused, stopped
or completed are to give no results, so none of them is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Relative latencies. back: below it a query comes back. lost: above it one is lost again during an
    incident."""

    back: float
    lost: float

    @classmethod
    def of(cls, theta: float) -> Limits:
        return cls(back=theta, lost=theta * Policy().margin)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFacts:
    """What rows say of a query. topology: the status of its topology. incident: whether one of its topology
    is open, in which latencies are judged by those before it. relative: latency, 1 being the usual one.
    fidelity: share of its output that its tentative rows have, None if it gives none."""

    topology: str
    status: str
    available: bool
    relative: float | None
    incident: bool
    fidelity: float | None = None


def query_health(query: QueryFacts, limits: Limits) -> Health:
    if query.topology == "completed":
        return Health(state="completed", word="Completed", tone="done")
    if query.topology in NOT_RUNNING:
        return Health(state="idle", word="Not running", tone="idle")
    if query.status == "parked":
        return Health(state="parked", word="Parked", tone="idle", note="stopped to free CPU for others")
    if query.topology == "paused":
        return Health(state="paused", word="Paused", tone="idle")
    if query.fidelity is not None and query.topology != "failed" and not query.available:
        return _tentative(query, limits, query.fidelity)
    if query.status == "failed" or query.topology == "failed":
        return Health(state="failed", word="Failed", tone="bad", note="a partition it needs does not run")
    if query.available:
        return _available(query, limits)
    if query.status == "starting":
        return Health(state="starting", word="Starting", tone="busy", note="no results yet")
    return _recovering(query, limits)


def _available(query: QueryFacts, limits: Limits) -> Health:
    value = query.relative if query.topology in MEASURED else None
    limit = limits.lost if query.incident and value is not None else None
    tone: Tone = "good"
    if value is None:
        note = ""
    elif limit is not None and value > limit:
        # Measured before the incident, whose limit it has not been judged by.
        return Health(
            state="available",
            word="Available",
            tone="warn",
            value=value,
            note="not judged in this incident yet",
        )
    else:
        slower = value >= limits.back
        tone = "warn" if slower else "good"
        note = (
            f"available up to {limit:.2f}×"
            if limit is not None
            else "slower than usual, and available"
            if slower
            else "of the usual latency"
        )
    return Health(state="available", word="Available", tone=tone, value=value, limit=limit, note=note)


def _tentative(query: QueryFacts, limits: Limits, fidelity: float) -> Health:
    """It is not available: the latency is that of its final rows."""
    share = min(99, max(1, round(100 * fidelity)))
    note = f"goes on with about {share} % of its input; the final rows follow"
    measured = query.topology in MEASURED and query.status == "recovering"
    value = query.relative if measured else None
    limit = limits.back if value is not None else None
    return Health(state="tentative", word="Tentative", tone="warn", value=value, limit=limit, note=note)


def _recovering(query: QueryFacts, limits: Limits) -> Health:
    value = query.relative if query.topology in MEASURED else None
    if value is None:
        return Health(state="recovering", word="Recovering", tone="busy", note="no result is measured yet")
    near = value < limits.back
    note = (
        f"below {limits.back:.2f}×; available when it stays there"
        if near
        else f"not available; back below {limits.back:.2f}×"
    )
    return Health(
        state="recovering", word="Recovering", tone="busy", value=value, limit=limits.back, note=note
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Of the queries of a topology, or of several: how many there are, and how many are available, parked,
    and not available but with tentative output."""

    total: int
    available: int
    parked: int = 0
    tentative: int = 0

    @property
    def missing(self) -> int:
        """That are to give results and do not."""
        return self.total - self.available - self.parked


def queries_count(healths: Iterable[Health]) -> Counts:
    states = [health.state for health in healths]
    return Counts(
        total=len(states),
        available=states.count("available"),
        parked=states.count("parked"),
        tentative=states.count("tentative"),
    )
