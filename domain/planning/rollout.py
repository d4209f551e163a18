"""What a first wave leads to: the waves behind it, played with the nodes that are expected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from domain.planning.arrivals import Arrival
from domain.planning.packed_plan import Layout, PackedPlan
from domain.planning.packing import densities
from domain.planning.problem import capacity_grains
from domain.planning.rooms import Effort

# Moments at which nodes come. Where there are more, nodes wait for the last of their group.
MOMENTS = 8
EFFORT = 20_000
# Entries of the problem times moments that all plans together may take; about a second.
WORK = 2_000_000


class Rollout:
    """Arrivals up to the horizon, in seconds from now. Each brings one node, with room to itself."""

    def __init__(self, layout: Layout, arrivals: Iterable[Arrival], horizon: float) -> None:
        self.layout, self.horizon = layout, horizon
        self.weights = densities(layout)
        coming = [arrival for arrival in sorted(arrivals) if arrival.at < horizon]
        size = -(-len(coming) // MOMENTS) if coming else 1
        self.groups = [coming[first : first + size] for first in range(0, len(coming), size)]
        self.nodes = len(coming)

    def best(self, plans: Sequence[PackedPlan]) -> tuple[PackedPlan, float]:
        """Of these first waves the one with most area, of equals the first; and its area relative to that of
        the first. Only as many are compared as `WORK` allows."""
        layout = self.layout
        entries = len(layout.costs) + len(layout.free) + sum(len(needed) for needed in layout.needed)
        several = plans[: max(2, WORK // (entries * max(1, len(self.groups))))]
        areas = [self.area(plan) for plan in several]
        best = areas.index(max(areas))
        return several[best], areas[best] / areas[0] if areas[0] else 1.0

    def area(self, first: PackedPlan) -> float:
        """Priority times seconds up to the horizon if this plan is carried out now and stays, and every wave
        behind it adds the densest queries that have room then."""
        plan = first.before_arrivals(self.nodes, Effort(EFFORT))
        node = len(self.layout.free)
        area, now = 0.0, 0.0
        for group in self.groups:
            at = max(now, group[-1].at)
            area += plan.value * (at - now)
            now = at
            for arrival in group:
                plan.arrive(node, capacity_grains(arrival.capacity))
                node += 1
            filled = [plan.copy() for _ in self.weights]
            for one, weight in zip(filled, self.weights, strict=True):
                one.fill(weight)
            plan = max(filled, key=lambda one: (one.value, one.left))
        return area + plan.value * (self.horizon - now)
