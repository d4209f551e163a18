"""Looks at replicas in the exact world: what `controlplane.replication.services` does, with the pure core of
production and the rows of the simulation."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from domain.recovery.costs import costs_fix
from domain.recovery.incident import NodeView
from domain.replication.looking import Kept, as_room_permits, none_at_all, placed_anew, replica_nodes
from domain.replication.planner import ReplicationProblem
from tests.simulation.exact_world import ReplicatedWorld
from tests.simulation.incident_rules import BOUND


@dataclass(slots=True)
class Known:
    """What the database has of a driver and its replicas. applied: generation that it reported last; acting,
    caught_up, running: of that report. kept: what the last look left."""

    applied: int = 1
    acting: dict[str, str] = field(default_factory=dict)
    caught_up: list[str] = field(default_factory=list)
    running: bool = False
    kept: Kept = field(default_factory=Kept)


class Looks(ReplicatedWorld):
    """known: topology -> what the database has of it. budget, planner, rates: what its replication plan is
    made for. racks: how many there are."""

    replicated = False

    def __init__(self, **named: Any) -> None:
        self.drawn = random.Random(f"placed-{named.get('seed', 0)}")
        room = self.drawn.choice([1.0, 2.0, 4.0, 20.0])
        named["capacities"] = tuple(one * room for one in named["capacities"])
        super().__init__(**named)
        self.known = {name: Known() for name in self.runs}
        self.racks = self.drawn.choice([0, 2, 3])
        self.budget: dict[str, int] = {}
        self.planner: dict[str, str] = {}
        self.rates: dict[str, dict[str, float]] = {}
        for name in self.runs:
            self.ask_for_replicas(name, self.drawn)

    def do_look(self, rng: random.Random) -> None:
        for name, known in self.known.items():
            before, known.kept = known.kept, self.look(name)
            self.note_changes(before, known.kept)

    def look(self, name: str) -> Kept:
        known, run = self.known[name], self.runs[name]
        deployed = self.deployed(name, run.generation)
        if not run.graph.deterministic:
            return none_at_all(known.kept, deployed=deployed, why="not deterministic")
        views = self.views()
        deployments = {one: self.deployment(one, 0) for one in self.runs}
        incident = self.open_incident()
        fixed = self.costs.get(incident, {}) if incident is not None else {}
        costs = {**fixed, **costs_fix(deployments, views, fixed, BOUND)}
        nodes = replica_nodes(
            [view for view in views.values() if view.usable or (incident and view.alive)],
            standby=(), deployments=deployments,
            costs=costs, max_utilisation=BOUND,
            others={one: self.known[one].kept.replicas.assignment for one in self.runs if one != name},
        )  # fmt: skip
        if incident is not None or not known.running:
            return as_room_permits(
                known.kept, deployed=deployed, homes=deployments[name].assignment, nodes=nodes,
                costs=costs[name], why="unsettled",
            )  # fmt: skip
        rates, budget = self.rates[name], self.budget[name]
        problem = ReplicationProblem(run.graph, rates, budget, "weighted", run.priorities)
        return placed_anew(
            known.kept, deployed=deployed, problem=problem, planner=self.planner[name],
            homes=deployments[name].assignment, nodes=nodes, costs=costs[name], caught_up=known.caught_up,
        )  # fmt: skip

    def views(self) -> dict[str, NodeView]:
        views = {}
        for node in self.nodes:
            alive, rack = node not in self.recorded_lost, f"rack-{int(node[5:]) % max(1, self.racks)}"
            views[node] = NodeView(
                name=node, alive=alive, usable=alive and node not in self.draining,
                capacity=self.capacity[node], rack=rack if self.racks else "",
            )  # fmt: skip
        return views

    def note_changes(self, before: Kept, after: Kept) -> None:
        for _, node in before.replicas.assignment.items() - after.replicas.assignment.items():
            self.count("replicas on lost nodes" if node in self.recorded_lost else "replicas withdrawn")
        if after.replicas.unplaced and not after.note:
            self.count("looks that found too little room")

    def do_replication(self, rng: random.Random) -> None:
        """Another policy, and other rates."""
        self.ask_for_replicas(rng.choice(sorted(self.runs)), rng)

    def ask_for_replicas(self, name: str, rng: random.Random) -> None:
        partitions = self.runs[name].graph.partitions
        self.budget[name] = rng.randint(1, len(partitions)) if rng.random() < 0.9 else 0
        self.planner[name] = rng.choice(["greedy", "structure_aware"])
        self.rates[name] = {p: rng.uniform(1.0, 100.0) for p in partitions}
