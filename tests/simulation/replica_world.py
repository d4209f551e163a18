"""The exact world in which the coordinator places replicas, as production does: by the look of
`domain.replication`, with what it knows of the drivers. Takeovers and plans meet in any order.

    python -m tests.simulation.replica_world --count 1000
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import defaultdict
from dataclasses import replace
from typing import Any

from msgspec import structs

from domain.execution.shadows import unknown_now, unknown_to
from domain.messages import Plan as WirePlan
from domain.recovery import facts
from domain.recovery.events import DriverReported, Event
from domain.recovery.incident import Deployment, State
from domain.recovery.instructions import CreatePlan
from tests.simulation.exact_run import ExactRun
from tests.simulation.incident_schedules import ACTIONS, COURSE, WITH_MOVES, check, check_ended, world_of
from tests.simulation.many_seeds import run_seeds
from tests.simulation.replica_looks import Known, Looks

MORE = (
    "look", "look", "look", "telemetry", "telemetry", "replication", "drive", "drive", "drive", "strike",
    "strike", "epochs", "epochs",
)  # fmt: skip
QUIET = (*COURSE, "look", "drive", "look", "drive", "drive", "telemetry")
"""A recovery that nothing disturbs, and looks at replicas after it."""

WANTED = (
    "partitions taken over", "takeovers in incidents", "nodes lost while acting", "replicas withdrawn",
    "replicas on lost nodes", "plans that know of takeovers", "incidents",
)  # fmt: skip
"""Nothing is proved by many schedules in which one of these is never seen."""


class ReplicaWorld(Looks):
    """knew: the takeovers that each plan was made with; acted: what acted under it, at any time. came_back:
    nodes that were gone, with their disks."""

    def __init__(self, **named: Any) -> None:
        self.came_back: set[str] = set()
        super().__init__(**named)
        self.knew: dict[tuple[str, int], dict[str, str]] = {}
        self.acted: defaultdict[tuple[str, int], set[tuple[str, str]]] = defaultdict(set)
        self.lost_acting: dict[str, set[str]] = {name: set() for name in self.runs}
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

    def do_epochs(self, rng: random.Random) -> None:
        """Reports of epochs tell of an applied plan, too, and nothing of replicas."""
        for name, exact in self.exact.items():
            known, generation = self.known[name], exact.in_force.generation if exact.in_force else 0
            if known.applied < generation <= self.runs[name].generation:
                known.acting = unknown_to(self.wired(name, generation), known.acting)
                known.applied, known.running = generation, exact.state == "running"

    def do_redeploy(self, rng: random.Random) -> None:
        before = {name: run.generation for name, run in self.runs.items()}
        super().do_redeploy(rng)
        for name, run in self.runs.items():
            if run.generation != before[name]:
                self.known[name] = Known(applied=run.generation, kept=self.known[name].kept)

    def placed(self, name: str) -> dict[str, str]:
        return {**self.newest(name).assignment, **self.taken(name)}

    def taken(self, name: str) -> dict[str, str]:
        """As `controlplane.incidents.acting` does it."""
        known, plan = self.known[name], self.wired(name, self.newest(name).generation)
        found = unknown_now(plan, known.acting, known.applied)
        if plan.generation == known.applied:
            acted = self.acted[name, known.applied]
            assert found.items() <= acted, f"{name}: {found.items() - acted} never acted under this plan"
        return found

    def deployment(self, name: str, number: int) -> Deployment:
        newest = self.newest(name).generation
        return replace(
            super().deployment(name, number),
            deployed=self.deployed(name, newest),
            acting=self.knew.get((name, newest), {}),
            taken=self.taken(name),
        )

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

    # ---- drivers -----------------------------------------------------------------------------------

    def do_drive(self, rng: random.Random) -> None:
        super().do_drive(rng)
        for name, exact in self.exact.items():
            if exact.in_force is not None:
                self.acted[name, exact.in_force.generation].update(exact.tracker.acting.items())

    def replicate(self, exact: ExactRun) -> None:
        """What the driver reads in ZooKeeper besides its plan, unless it cannot be reached."""
        name = exact.topology.name
        if self.calm and name == min(self.exact):
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

    def recover_now(self, name: str, *, checkpoint: int | None = None) -> None:
        if self.calm and State.ABORTED not in self.incidents.values():
            raise AssertionError(f"no incident takes up what is down of {name}: {self.absent(name)}")
        super().recover_now(name, checkpoint=checkpoint)

    def follow_nodes(self) -> None:
        gone = set(self.shelf)
        super().follow_nodes()
        self.came_back |= gone & self.disks.keys()

    def check_buffers(self, name: str) -> None:
        """A disk that came back may have what others have dropped meanwhile."""
        exact = self.exact[name]
        left = {node for node, kept in exact._kept().items() if any(kept.buffers.values())}
        assert left <= self.came_back, f"{name}: buffers are left after the incident on {left}"

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


def counted(seed: int) -> dict[str, int]:
    world = run_placed(seed)
    return {**world.counts, "incidents": len(world.incidents)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    totals, failing = run_seeds(counted, count=given.count, first=given.first)
    unseen = [what for what in WANTED if not totals[what] and given.count >= 100]
    if unseen:
        print("never seen:", *unseen)
    return 1 if failing or unseen else 0


if __name__ == "__main__":
    sys.exit(main())
