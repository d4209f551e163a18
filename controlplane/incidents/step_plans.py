"""The plans that one step of an incident makes and moves, read and written together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from functools import reduce
from operator import or_

from django.db.models import Q

from controlplane.incidents.choices import PLAN_CURRENT, PlanState
from controlplane.incidents.models import RecoveryPlan
from controlplane.incidents.plan_states import PlanMoves

NOT_NEEDED = (
    "explanation",
    *("topology__spec", "topology__deployed_spec"),
    *("incident__summary", "incident__costs", "incident__forecast"),
)
"""Columns that are long, and that nothing is told of when plans move."""


class StepPlans:
    """`read` them, then ask for and change them; nothing is written before `write`."""

    def __init__(self, at: datetime) -> None:
        self._known: defaultdict[str, dict[int, RecoveryPlan]] = defaultdict(dict)
        self._created: list[RecoveryPlan] = []
        self._moves = PlanMoves(at)

    def read(self, *, current: Collection[str], marked: Collection[tuple[str, int]]) -> None:
        """current: topologies whose plans that may still change are needed; marked: topologies and
        generations of other plans."""
        if current:
            self._keep(Q(topology__name__in=current, state__in=PLAN_CURRENT))
        missing: defaultdict[int, list[str]] = defaultdict(list)
        for name, generation in marked:
            if generation not in self._known[name]:
                missing[generation].append(name)
        if missing:
            of_generations = (Q(generation=one, topology__name__in=names) for one, names in missing.items())
            self._keep(reduce(or_, of_generations))

    def _keep(self, wanted: Q) -> None:
        rows = RecoveryPlan.objects.filter(wanted).select_related("topology", "incident").defer(*NOT_NEEDED)
        for row in rows.order_by("generation"):
            self._known[row.topology.name].setdefault(row.generation, row)

    def get(self, topology: str, generation: int) -> RecoveryPlan | None:
        return self._known[topology].get(generation)

    def current(self, topology: str) -> list[RecoveryPlan]:
        """Those of a topology that may still change."""
        return [row for row in self._known[topology].values() if row.state in PLAN_CURRENT]

    def create(self, row: RecoveryPlan) -> None:
        self._known[row.topology.name][row.generation] = row
        self._created.append(row)

    def move(self, row: RecoveryPlan, to: PlanState) -> bool:
        """Whether its state allows that."""
        if row.pk is None:
            self._insert()
        return self._moves.move(row, to)

    def write(self) -> bool:
        """False, and the caller must roll back, where another process has moved one of them."""
        self._insert()
        return self._moves.write()

    def _insert(self) -> None:
        RecoveryPlan.objects.bulk_create(self._created)
        self._created.clear()
