"""The states of recovery plans: which may follow which, and the only code that writes them.

A move compares and sets in one statement. It publishes no event: the caller puts the change into the event of
its own transaction, which `PLAN_EVENTS` names.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

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
    before = [state for state, allowed in PLAN_MOVES.items() if to in allowed]
    values: dict[str, object] = {"state": to}
    if to in _MOMENTS:
        values[_MOMENTS[to]] = at
    if not RecoveryPlan.objects.filter(pk=plan.pk, state__in=before).update(**values):
        return False
    for name, value in values.items():
        setattr(plan, name, value)
    return True
