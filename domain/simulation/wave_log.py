"""What each wave planned, in the costs that planning used, and whether it kept within the bounds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from domain.planning import natural_key
from domain.recovery.costs import costs_fix
from domain.recovery.instructions import CreatePlan
from domain.simulation.coordinator import Coordinator
from domain.simulation.fluid import Flags, Fluid
from domain.simulation.outcome import WaveOutcome
from domain.simulation.scenario import Scenario


@dataclass(slots=True)
class _Entry:
    outcome: WaveOutcome
    missing: set[str]


class WaveLog:
    """One entry per decision; a decision can make a plan for each of several topologies."""

    def __init__(self, scenario: Scenario, fluid: Fluid, coordinator: Coordinator) -> None:
        self._scenario, self._fluid, self._coordinator = scenario, fluid, coordinator
        self._entries: list[_Entry] = []
        self._by_plan: dict[tuple[str, int], _Entry] = {}
        self._planned: Flags = np.ones(len(fluid.names), dtype=bool)
        self._costs = costs_fix(coordinator.deployments, coordinator.nodes, {}, scenario.max_utilisation)

    def keep(self, costs: Mapping[str, Mapping[str, float]]) -> None:
        """The costs in which this incident is planned."""
        for topology, given in costs.items():
            self._costs[topology] = dict(given)

    def refresh(self, topologies: Iterable[str]) -> None:
        """Look again at what is planned to run in these topologies."""
        machine = self._coordinator.machine
        for name in topologies:
            deployment = self._coordinator.deployments[name]
            case = machine.cases.get(name) if machine is not None else None
            failed: Collection[str] = case.failed if case is not None else ()
            everything = [f"{name}/{label}" for label in deployment.topology.partitions]
            self._planned[self._fluid.indices(everything)] = False
            runs = [f"{name}/{label}" for label in deployment.assignment if label not in failed]
            self._planned[self._fluid.indices(runs)] = True

    def add(self, plans: list[CreatePlan], *, at: float, seconds: float) -> None:
        """The coordinator decided upon these plans together; `deployments` already hold them."""
        before = self._fluid.supported(self._planned)
        self.refresh(plan.topology for plan in plans)
        gained = self._fluid.supported(self._planned) & ~before
        restore = {(plan.topology, label) for plan in plans for label in plan.restore}
        cost = sum(self._costs[topology][label] for topology, label in restore)
        load = self._load()
        usable = [node for node in self._coordinator.nodes.values() if node.usable]
        # Where that gains much, nodes are planned fuller than usual (`domain.recovery.fuller`).
        most = max(plan.explanation.get("max_utilisation", self._scenario.max_utilisation) for plan in plans)
        bound = {node.name: node.capacity * most for node in usable}
        room = sum(max(0.0, bound[name] - load.get(name, 0.0)) for name in bound)
        where = {plan.assignment[label] for plan in plans for label in plan.restore}
        entry = _Entry(
            WaveOutcome(
                number=len(self._entries) + 1,
                decided_at=at,
                restored_at=None,
                rollback=any(plan.rollback for plan in plans),
                nodes=tuple(sorted(where, key=natural_key)),
                partitions=len(restore),
                queries=tuple(self._fluid.queries[i] for i in np.flatnonzero(gained)),
                cost=round(cost, 4),
                capacity=round(room + cost, 4),
                highest=max(
                    (load.get(name, 0.0) / bound[name] for name in where if name in bound), default=0.0
                ),
                bound=most,
                planning_seconds=seconds,
            ),
            {plan.topology for plan in plans},
        )
        self._entries.append(entry)
        for plan in plans:
            self._by_plan[plan.topology, plan.generation] = entry

    def applied(self, plan: CreatePlan, *, at: float) -> None:
        """The plan's partitions have started."""
        entry = self._by_plan[plan.topology, plan.generation]
        entry.missing.discard(plan.topology)
        if not entry.missing:
            entry.outcome = replace(entry.outcome, restored_at=at)

    def outcomes(self) -> list[WaveOutcome]:
        return [entry.outcome for entry in self._entries]

    def _load(self) -> dict[str, float]:
        """Planned CPU percent of every node."""
        load: dict[str, float] = {}
        for name, deployment in self._coordinator.deployments.items():
            costs, first = self._costs[name], self._fluid.index[f"{name}/{deployment.topology.partitions[0]}"]
            for offset, label in enumerate(deployment.topology.partitions):
                if self._planned[first + offset]:
                    node = deployment.assignment[label]
                    load[node] = load.get(node, 0.0) + costs[label]
        return load
