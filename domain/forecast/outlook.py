"""What is still to happen until queries, waves and an incident are over, in seconds from now. Pure.

A query goes through four stages, each named for what it waits for:

    nodes    no plan restores all it lacks: a node is awaited, or room
    start    a plan does: its executors start and load the checkpoint
    replay   they run, and work off what came in since the checkpoint
    settle   they have caught up: the latency must be normal for a while

A wave has the second and the third of them. An incident stands in the earliest stage of any of its queries,
and also waits for the checkpoint that verifies it. The seconds are sums of what each stage takes as a rule;
how wrong they were in earlier incidents is what `domain.forecast.spread` makes a range of.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from domain.planning import Arrival

Kind = Literal["incident", "wave", "query"]
Stage = Literal["nodes", "start", "replay", "settle"]
STAGES: tuple[Stage, ...] = ("nodes", "start", "replay", "settle")

START = 5.0
"""Seconds from a plan to its partitions at work, where no incident has shown it yet."""
SPEED = 4.0
"""Seconds of input that are replayed in one second, until the driver has measured it."""
NO_REPLAY = math.inf
"""As the moment of a checkpoint: what starts or moves goes on in the present."""
LEAST = 1.0
OVERDUE = 0.1
"""What takes longer than expected is expected to take this share of its time so far again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """A plan of the incident. Moments in Unix seconds, None for what has not happened. checkpoint_at: when
    the checkpoint that it starts from was complete. catch_up: seconds, as the driver estimates at its
    pace."""

    topology: str
    generation: int
    decided_at: float
    checkpoint_at: float
    applied_at: float | None = None
    caught_up_at: float | None = None
    catch_up: float | None = None

    @property
    def subject(self) -> str:
        return f"{self.topology}/{self.generation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryView:
    """A query that failed and is not available again. plan: generation of the plan that restores the last of
    what it lacks, None where no plan does, 0 where it lacks nothing. checkpoint_at: as that of its topology
    now. priority: the higher, the sooner it is restored. cost: CPU percent of what it lacks."""

    topology: str
    query: str
    plan: int | None
    checkpoint_at: float
    priority: int = 1
    cost: float = 0.0

    @property
    def subject(self) -> str:
        return f"{self.topology}/{self.query}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """That something is over in so many seconds, as things stand."""

    kind: Kind
    subject: str
    stage: Stage
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """incident: None while nothing can be expected, for the reason `held`, "" if there is an estimate."""

    at: float
    incident: Expected | None
    waves: tuple[Expected, ...] = ()
    queries: tuple[Expected, ...] = ()
    held: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What stages take as a rule, in seconds. settle: of normal latency until a query is available. verify:
    from the last wave that has caught up to the checkpoint after it."""

    start: float = START
    speed: float = SPEED
    settle: float = 5.0
    verify: float = 10.0


def outlook_of(
    *,
    at: float,
    plans: Sequence[PlanView],
    queries: Sequence[QueryView],
    arrivals: Sequence[Arrival],
    pace: Pace,
    together: bool = False,
    held: str = "",
    stays: str = "",
) -> Outlook:
    """What is to be expected at the moment `at`.

    arrivals: nodes that were asked for, in order, and what room each brings (see `expected_arrivals`).
    together: nothing is restored before the last node is there. held: why no plan is made (an operator is
    awaited): for how long is not known, so what no plan restores has no estimate then. stays: why the
    incident stays open whatever is restored, for as long as is not known either.
    """
    by_plan = {(plan.topology, plan.generation): plan for plan in plans}
    waits = _waits(queries, arrivals, together=together)
    found: list[Expected] = []
    unknown = False
    for query in queries:
        if query.plan == 0:
            found.append(
                Expected(kind="query", subject=query.subject, stage="settle", seconds=max(LEAST, pace.settle))
            )
            continue
        plan = by_plan.get((query.topology, query.plan)) if query.plan is not None else None
        if plan is None:
            wait = waits.get(query.subject)
            if held or wait is None:
                unknown = True
                continue
            begun = at + wait + pace.start
            seconds = wait + pace.start + _replay(begun - query.checkpoint_at, pace) + pace.settle
            found.append(Expected(kind="query", subject=query.subject, stage="nodes", seconds=seconds))
        else:
            stage, seconds = _left(plan, at, pace)
            settle = pace.settle
            if stage == "settle" and plan.caught_up_at is not None:
                settle = _remaining(pace.settle, at - plan.caught_up_at)
            found.append(
                Expected(
                    kind="query", subject=query.subject, stage=stage, seconds=max(LEAST, seconds + settle)
                )
            )
    waves = [
        Expected(kind="wave", subject=plan.subject, stage=stage, seconds=max(LEAST, seconds))
        for plan in plans
        for stage, seconds in (_left(plan, at, pace),)
        if stage != "settle"
    ]
    why = (
        (held or "no node is expected, and the rest does not fit on the present nodes") if unknown else stays
    )
    if why:
        return Outlook(at=at, incident=None, waves=tuple(waves), queries=tuple(found), held=why)
    return Outlook(
        at=at, incident=_incident(at, plans, found, waves, pace), waves=tuple(waves), queries=tuple(found)
    )


def _incident(
    at: float, plans: Sequence[PlanView], queries: Sequence[Expected], waves: Sequence[Expected], pace: Pace
) -> Expected | None:
    caught_up = max((plan.caught_up_at for plan in plans if plan.caught_up_at is not None), default=None)
    ends = [one.seconds for one in queries]
    ends += [one.seconds + pace.verify for one in waves]
    ends += [one.seconds - pace.settle + pace.verify for one in queries if one.stage == "nodes"]
    if not waves and caught_up is not None:
        ends.append(_remaining(pace.verify, at - caught_up))
    if not ends:
        return None
    stages = {one.stage for one in (*queries, *waves)} or {"settle"}
    earliest = next(stage for stage in STAGES if stage in stages)
    return Expected(kind="incident", subject="", stage=earliest, seconds=max(LEAST, *ends))


def _left(plan: PlanView, at: float, pace: Pace) -> tuple[Stage, float]:
    """Until a plan has caught up, and what it waits for."""
    if plan.caught_up_at is not None:
        return "settle", 0.0
    if plan.applied_at is None:
        start = _remaining(pace.start, at - plan.decided_at)
        return "start", start + _replay(at + start - plan.checkpoint_at, pace)
    if plan.catch_up is not None:
        return "replay", plan.catch_up
    return "replay", _remaining(_replay(plan.applied_at - plan.checkpoint_at, pace), at - plan.applied_at)


def _replay(backlog: float, pace: Pace) -> float:
    """Seconds to work off so many seconds of input while more comes in."""
    return max(0.0, backlog) / (pace.speed - 1.0)


def _remaining(expected: float, passed: float) -> float:
    return max(expected - passed, OVERDUE * passed)


def _waits(queries: Sequence[QueryView], arrivals: Sequence[Arrival], *, together: bool) -> dict[str, float]:
    """Seconds until there is room for each query that no plan restores: the most important first, each as
    soon as those that have come offer what it and those before it cost."""
    waiting = sorted((one for one in queries if one.plan is None), key=lambda one: (-one.priority, one.cost))
    if not waiting or not arrivals:
        return {}
    ordered = sorted(arrivals)
    last = ordered[-1].at
    if together:
        return {one.subject: last for one in waiting}
    total = sum(one.cost for one in waiting)
    offered = sum(one.capacity for one in ordered)
    # What offers less than it costs is shared out all the same: survivors have room, too.
    scale = min(1.0, offered / total) if total > 0 else 0.0
    found: dict[str, float] = {}
    needed, room, index = 0.0, ordered[0].capacity, 0
    for one in waiting:
        needed += one.cost * scale
        while room < needed - 1e-9 and index + 1 < len(ordered):
            index += 1
            room += ordered[index].capacity
        found[one.subject] = ordered[index].at
    return found
