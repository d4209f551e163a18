"""The states of recovery plans: which may follow which, and the only code that writes them.

A move compares and sets in one statement; moves of many plans are made together. It publishes no event: the
caller puts the change into the event of its own transaction, which `PLAN_EVENTS` names.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import groupby
from operator import itemgetter

from controlplane.events.choices import EventKind
from controlplane.incidents.choices import PlanState
from controlplane.incidents.models import RecoveryPlan

PLAN_MOVES: Mapping[PlanState, frozenset[PlanState]] = {
    # What ZooKeeper or a driver says may be read late, so that steps in between are left out.
    PlanState.PLANNED: frozenset(
        {PlanState.PUBLISHED, PlanState.APPLIED, PlanState.VERIFIED, PlanState.SUPERSEDED}
    ),
    PlanState.PUBLISHED: frozenset({PlanState.APPLIED, PlanState.VERIFIED, PlanState.SUPERSEDED}),
    PlanState.APPLIED: frozenset({PlanState.VERIFIED, PlanState.SUPERSEDED}),
    PlanState.VERIFIED: frozenset(),
    PlanState.SUPERSEDED: frozenset(),
}

PLAN_EVENTS: Mapping[PlanState, EventKind] = {
    PlanState.PUBLISHED: EventKind.PLAN_PUBLISHED,
    PlanState.APPLIED: EventKind.PLAN_APPLIED,
    PlanState.VERIFIED: EventKind.PLAN_VERIFIED,
    PlanState.SUPERSEDED: EventKind.PLAN_SUPERSEDED,
}

_MOMENTS = {
    PlanState.PUBLISHED: "published_at",
    PlanState.APPLIED: "applied_at",
    PlanState.VERIFIED: "verified_at",
}


def plan_move(plan: RecoveryPlan, to: PlanState, *, at: datetime) -> bool:
    """Give `plan` the state `to` and the moment of it; False, and nothing is changed, where its present state
    does not allow it."""
    values = _values(to, at)
    if not RecoveryPlan.objects.filter(pk=plan.pk, state__in=_before(to)).update(**values):
        return False
    for name, value in values.items():
        setattr(plan, name, value)
    return True


class PlanMoves:
    """Moves of many plans, written together. The caller has locked them, as all do that move plans
    (`controlplane.events.services.writing`): each move is judged by the state that was read."""

    def __init__(self, at: datetime) -> None:
        self._at = at
        self._moved: list[tuple[RecoveryPlan, PlanState]] = []

    def move(self, plan: RecoveryPlan, to: PlanState) -> bool:
        """As `plan_move`; nothing is written before `write`."""
        if plan.state not in _before(to):
            return False
        for name, value in _values(to, self._at).items():
            setattr(plan, name, value)
        self._moved.append((plan, to))
        return True

    def write(self) -> bool:
        """Compare and set; False, and the caller must roll back, where one had another state by then."""
        done = True
        for to, moves in groupby(self._moved, key=itemgetter(1)):
            plans = [plan.pk for plan, _ in moves]
            rows = RecoveryPlan.objects.filter(pk__in=plans, state__in=_before(to))
            done &= rows.update(**_values(to, self._at)) == len(plans)
        self._moved.clear()
        return done


def _before(to: PlanState) -> list[PlanState]:
    return [state for state, allowed in PLAN_MOVES.items() if to in allowed]


def _values(to: PlanState, at: datetime) -> dict[str, object]:
    return {"state": to, _MOMENTS[to]: at} if to in _MOMENTS else {"state": to}
