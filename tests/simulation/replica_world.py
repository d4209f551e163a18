"""The exact world in which the coordinator places replicas, as production does: by the look of
`domain.replication`, with what it knows of the drivers. Takeovers and plans meet in any order.

    python -m tests.simulation.replica_world --count 1000
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import structs

from domain.execution.shadows import homes_under
from domain.messages import Plan as WirePlan
from domain.recovery import facts
from domain.recovery.costs import costs_fix
from domain.recovery.events import DriverReported, Event
from domain.recovery.incident import NodeView
from domain.recovery.instructions import CreatePlan
from domain.replication.looking import Kept, as_they_are, none_at_all, placed_anew, replica_nodes
from domain.replication.planner import ReplicationProblem
from tests.simulation.exact_run import ExactRun
from tests.simulation.exact_world import ReplicatedWorld
from tests.simulation.incident_rules import BOUND
from tests.simulation.incident_schedules import ACTIONS, COURSE, WITH_MOVES, check, check_ended, world_of

MORE = (
    "look", "look", "look", "telemetry", "telemetry", "replication", "drive", "drive", "drive", "strike",
    "strike",
)  # fmt: skip
QUIET = (*COURSE, "look", "drive", "look", "drive", "drive", "telemetry")
"""A recovery that nothing disturbs, and looks at replicas after it."""

WANTED = (
    "partitions taken over", "takeovers in incidents", "nodes lost while acting", "replicas withdrawn",
    "replicas on lost nodes", "plans that know of takeovers", "incidents",
)  # fmt: skip
"""Nothing is proved by many schedules in which one of these is never seen."""


@dataclass(slots=True)
class Known:
    """What the database has of a driver and its replicas. applied: generation that it reported last; acting,
    caught_up, running: of that report. kept: what the last look left."""

    applied: int = 1
    acting: dict[str, str] = field(default_factory=dict)
    caught_up: list[str] = field(default_factory=list)
    running: bool = False
    kept: Kept = field(default_factory=Kept)


class ReplicaWorld(ReplicatedWorld):
    """known: topology -> what the coordinator knows. knew: the takeovers that each plan was made with."""

    replicated = False

    def __init__(self, **named: Any) -> None:
        self.drawn = random.Random(f"placed-{named.get('seed', 0)}")
        room = self.drawn.choice([1.0, 2.0, 4.0, 20.0])
        named["capacities"] = tuple(one * room for one in named["capacities"])
        super().__init__(**named)
        self.known = {name: Known() for name in self.runs}
        self.knew: dict[tuple[str, int], dict[str, str]] = {}
        self.lost_acting: dict[str, set[str]] = {name: set() for name in self.runs}
        self.racks = self.drawn.choice([0, 2, 3])
        self.budget: dict[str, int] = {}
        self.planner: dict[str, str] = {}
        self.rates: dict[str, dict[str, float]] = {}
        for name in self.runs:
            self.ask_for_replicas(name, self.drawn)
        self.quietly(6)

    def quietly(self, turns: int) -> None:
        """Nothing fails meanwhile, and the first replicas catch up."""
        self.calm = True
        for exact in self.exact.values():
            exact.flaws = False
        for _ in range(turns):
            self.now += 1.0
            self.do_drive(self.drawn)
        self.calm = False
        for exact in self.exact.values():
            exact.flaws = True

    # ---- what the coordinator knows of drivers -----------------------------------------------------

    def report(self, name: str) -> DriverReported:
        tracker = self.exact[name].tracker
        shadows = tracker.shadows.status(tracker.progress)
        standing = {p: one.node for p, one in shadows.items() if one.ready}
        return replace(super().report(name), acting=dict(tracker.acting), standing=standing)

    def note_report(self, event: DriverReported) -> None:
        """As `controlplane.topologies.telemetry` does it."""
        known = self.known[event.topology]
        if known.applied <= event.generation <= self.runs[event.topology].generation:
            known.applied, known.acting = event.generation, dict(event.acting)
            known.caught_up, known.running = sorted(event.standing), event.state == "running"

    def feed(self, *events: Event, may_plan: bool = True, new: bool = False) -> None:
        """A step of an incident looks at the drivers where replicas act."""
        if self.open_incident() is not None:
            for event in events:
                if isinstance(event, DriverReported) and event.acting:
                    self.note_report(event)
        super().feed(*events, may_plan=may_plan, new=new)

    def do_telemetry(self, rng: random.Random) -> None:
        for name in self.runs:
            self.note_report(self.report(name))

    def do_redeploy(self, rng: random.Random) -> None:
        before = {name: run.generation for name, run in self.runs.items()}
        super().do_redeploy(rng)
        for name, run in self.runs.items():
            if run.generation != before[name]:
                self.known[name] = Known(applied=run.generation, kept=self.known[name].kept)

    def placed(self, name: str) -> dict[str, str]:
        """As `controlplane.incidents.acting` does it."""
        return homes_under(self.wired(name, self.newest(name).generation), self.known[name].acting)

    def wired(self, name: str, generation: int) -> WirePlan:
        """The parts of a plan that say where partitions are."""
        plan = next(one for one in self.plans if (one.topology, one.generation) == (name, generation))
        acting = self.knew.get((name, generation), {})
        return WirePlan(generation=generation, kind="deploy", assignment=plan.assignment, acting=acting)

    def store_plan(self, number: int, new: CreatePlan) -> None:
        super().store_plan(number, new)
        acting = dict(self.known[new.topology].acting)
        self.knew[new.topology, new.generation] = acting
        if acting:
            self.count("plans that know of takeovers")

    def note(self, number: int, fact: facts.Fact) -> None:
        super().note(number, fact)
        if isinstance(fact, facts.TakenOver):
            self.count("takeovers in incidents")

    def do_strike(self, rng: random.Random) -> None:
        """A node is lost whose partitions have replicas, or on which some act; drivers may see it first."""
        struck = set[str]()
        for exact in self.exact.values():
            struck.update(exact.tracker.acting.values())
            struck.update(exact.tracker.homes.get(partition, "") for partition in exact.replicas)
        alive = sorted(node for node in struck if self.nodes.get(node))
        if alive:
            node = rng.choice(alive)
            self.nodes[node] = False
            if rng.random() < 0.3:
                self.detect([node])

    # ---- looks at replicas -------------------------------------------------------------------------

    def do_look(self, rng: random.Random) -> None:
        """As `controlplane.replication.services` does it."""
        for name, known in self.known.items():
            before, known.kept = known.kept, self.look(name)
            self.note_changes(before, known.kept)

    def look(self, name: str) -> Kept:
        known, run = self.known[name], self.runs[name]
        deployed = self.deployed(name, run.generation)
        if not run.graph.deterministic:
            return none_at_all(known.kept, deployed=deployed, why="not deterministic")
        views = self.views()
        if self.open_incident() is not None or not known.running:
            alive = [view.name for view in views.values() if view.alive]
            return as_they_are(known.kept, deployed=deployed, alive=alive, why="unsettled")
        deployments = {one: self.deployment(one, 0) for one in self.runs}
        costs = costs_fix(deployments, views, {}, BOUND)
        nodes = replica_nodes(
            [view for view in views.values() if view.usable], standby=(), deployments=deployments,
            costs=costs, max_utilisation=BOUND,
            others={one: self.known[one].kept.replicas.assignment for one in self.runs if one != name},
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

    def replicate(self, exact: ExactRun) -> None:
        """What the driver reads in ZooKeeper besides its plan, unless it cannot be reached."""
        name = exact.topology.name
        if self.calm:
            self.do_telemetry(self.drawn)
            self.do_look(self.drawn)
        acting = self.knew.get((name, exact.plan.generation), {})
        exact.plan = structs.replace(exact.plan, acting=acting)
        if name not in self.away:
            kept = self.known[name].kept
            current = kept.deployed == exact.plan.deployed
            exact.replicas = dict(kept.replicas.assignment) if current else {}
        gone = {node for node in exact.tracker.acting.values() if node not in self.disks}
        for _ in gone - self.lost_acting[name]:
            self.count("nodes lost while acting")
        self.lost_acting[name] = gone

    # ---- the end -----------------------------------------------------------------------------------

    def settle(self, rounds: int = 200) -> None:
        super().settle(rounds)
        self.do_telemetry(self.drawn)
        for name, exact in self.exact.items():
            placed, tracker = self.placed(name), exact.tracker
            assert placed == tracker.homes, (name, placed.items() - tracker.homes.items(), tracker.homes)
            last = self.report(name)
            for query, partitions in exact.topology.query_partitions.items():
                down = {p for p in partitions if not self.nodes.get(placed.get(p, ""), False)}
                assert not down | (partitions & (last.absent | last.behind)), f"{query} is not available"
            if tracker.acting:
                self.count("topologies in which replicas act at the end")


def run_placed(seed: int, *, length: int = 8) -> ReplicaWorld:
    """Run the schedule of this seed: random actions, with recoveries that nothing disturbs between them.
    Raises AssertionError if a rule does not hold."""
    world = world_of(seed, ReplicaWorld)
    rng = random.Random(f"placed-schedule-{seed}")
    actions = (*(WITH_MOVES if rng.random() < 0.5 else ACTIONS), *MORE)
    for _ in range(rng.randint(1, length)):
        drawn = [rng.choice(actions) for _ in range(rng.randint(1, 12))]
        course = QUIET * rng.randint(0, 2)
        for action in (*drawn, *course[: rng.randint(0, len(course))]):
            world.act(action, rng.randrange(10_000))
            check(world)
    world.settle()
    check(world)
    check_ended(world)
    return world


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    totals: Counter[str] = Counter()
    failing: list[int] = []
    started = time.monotonic()
    for seed in range(given.first, given.first + given.count):
        try:
            world = run_placed(seed)
        except Exception:  # the point is to go on and list them all
            failing.append(seed)
            if len(failing) <= 3:
                print(f"seed {seed}\n{traceback.format_exc(limit=-6)}", flush=True)
            continue
        totals.update(world.counts)
        totals["incidents"] += len(world.incidents)
    seconds = time.monotonic() - started
    print(
        f"{given.count} schedules from seed {given.first} in {seconds:.0f} s: {len(failing)} fail {failing}"
    )
    for what, number in sorted(totals.items()):
        print(f"  {number:>9,} {what}")
    unseen = [what for what in WANTED if not totals[what] and given.count >= 100]
    if unseen:
        print("never seen:", *unseen)
    return 1 if failing or unseen else 0


if __name__ == "__main__":
    sys.exit(main())
