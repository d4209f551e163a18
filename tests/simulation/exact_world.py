"""The incident world with a data plane that is real tuple for tuple: coordinator, planners, tracker and
partition runtimes are those of production; nodes, network and ZooKeeper are simulated.

    python -m tests.simulation.exact_world --count 10000
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from domain import messages as coordination
from domain.recovery.events import CheckpointCompleted, DriverReported, Event
from domain.recovery.incident import Deployment
from tests.simulation.exact_disk import Disk
from tests.simulation.exact_run import DriverKilledError, ExactRun
from tests.simulation.incident_rows import Plan
from tests.simulation.incident_schedules import ACTIONS, WITH_MOVES, WITH_PARKING, run_schedule
from tests.simulation.incident_world import World
from tests.simulation.many_seeds import run_seeds


class ExactWorld(World):
    """`exact` holds one run per topology; `disks` those of the nodes alive, `shelf` those of the dead. away:
    topologies whose drivers cannot read ZooKeeper. replicated: whether there are replicas, of which the
    coordinator knows nothing."""

    replicated = False

    def __init__(self, *positional: Any, **named: Any) -> None:
        super().__init__(*positional, **named)
        self.disks: dict[str, Disk] = {}
        self.shelf: dict[str, Disk] = {}
        self.dice = random.Random(named.get("seed", 0))
        self.away: set[str] = set()
        self.away_dice = random.Random(f"away-{named.get('seed', 0)}")
        self.exact: dict[str, ExactRun] = {}
        self.calm = True
        for name, run in self.runs.items():
            assert run.in_force is not None
            run.latest = run.latest_generation = 0
            self.exact[name] = ExactRun(
                run.graph,
                disks=self.disks,
                plan=wire_plan(run.in_force, 1),
                rng=self.dice,
                interrupt=self.interrupt,
            )
        self.replica_dice = random.Random(f"replicas-{named.get('seed', 0)}") if self.replicated else None
        self.follow_nodes()
        for exact in self.exact.values():
            for _ in range(12):  # up to a first checkpoint, undisturbed
                exact.flaws = False
                exact.turn()
            exact.flaws = True
            assert exact.latest[0] > 0
        self.calm = False
        self.follow_runs()

    def interrupt(self) -> None:
        """Between two steps a node or the driver may die."""
        if self.calm:
            return
        throw = self.dice.random()
        if throw < 0.0003 and len(self.disks) > 1:
            node = self.dice.choice(sorted(self.disks))
            self.nodes[node] = False
            self.shelf[node] = self.disks.pop(node)
        elif throw < 0.0006:
            raise DriverKilledError

    def follow_nodes(self) -> None:
        """Disks come and go with their nodes; a node that returns under its old name may have kept its
        disk."""
        for node, up in self.nodes.items():
            if up and node not in self.disks:
                kept = self.shelf.pop(node, None) if self.dice.random() < 0.7 else None
                self.disks[node] = kept or Disk()
                for exact in self.exact.values():
                    (exact.emptied if kept is None else exact.returned).add(node)
            elif not up and node in self.disks:
                self.shelf[node] = self.disks.pop(node)

    def follow_runs(self) -> None:
        for name, exact in self.exact.items():
            run = self.runs[name]
            if exact.latest != (run.latest, run.latest_generation):
                self.inbox.append(
                    CheckpointCompleted(
                        at=self.now, topology=name, checkpoint=exact.latest[0], generation=exact.latest[1]
                    )
                )
            run.latest, run.latest_generation = exact.latest
            run.driver.generation = exact.generation
            run.driver.applied = exact.applied
            run.driver.behind = set(exact.tracker.behind(exact.head))

    # ---- what the played drivers of the incident world do ------------------------------------------

    def do_drive(self, rng: random.Random) -> None:
        self.follow_nodes()
        for name, run in self.runs.items():
            assert run.in_force is not None
            exact = self.exact[name]
            if run.in_force.generation > exact.plan.generation and not self.without_zookeeper(name):
                exact.plan = wire_plan(run.in_force, self.deployed(name, run.in_force.generation))
            self.replicate(exact)
            before = exact.refused
            exact.turn(present=rng.choice([0, 1, 1, 2]))
            if exact.refused > before:
                self.count("plans refused by drivers")
            self.inbox.append(self.report(name))
        self.follow_runs()

    def replicate(self, exact: ExactRun) -> None:
        """Other replicas now and then, on any nodes."""
        dice = self.replica_dice
        if dice is not None and self.disks and (not exact.replicas or dice.random() < 0.05):
            partitions = exact.topology.partitions
            chosen = dice.sample(partitions, dice.randint(0, len(partitions)))
            exact.replicas = {p: dice.choice(sorted(self.disks)) for p in chosen}

    def without_zookeeper(self, name: str) -> bool:
        """Such a driver goes on under the plan that it has."""
        if self.calm or (name in self.away and self.away_dice.random() < 0.2):
            self.away.discard(name)
        elif self.away_dice.random() < 0.1:
            self.away.add(name)
        return name in self.away

    def do_checkpoint(self, rng: random.Random) -> None:
        self.do_drive(rng)

    def do_restart_driver(self, rng: random.Random) -> None:
        self.exact[rng.choice(sorted(self.exact))].kill_driver()

    def deployed(self, name: str, generation: int) -> int:
        """Generation of the plan that deployed the topology which a plan of this generation is about."""
        plans = [plan for plan in self.plans if plan.topology == name and plan.incident is None]
        return max(plan.generation for plan in plans if plan.generation <= generation)

    def present(self, event: Event) -> bool:
        """Whether an event is of the present deployment: a worker leaves out checkpoints of earlier ones."""
        if not isinstance(event, CheckpointCompleted):
            return True
        return event.generation >= self.deployed(event.topology, self.runs[event.topology].generation)

    def feed(self, *events: Event, may_plan: bool = True, new: bool = False) -> None:
        super().feed(*filter(self.present, events), may_plan=may_plan, new=new)

    def deployment(self, name: str, number: int) -> Deployment:
        """Checkpoints of an earlier deployment are void."""
        run, found = self.runs[name], super().deployment(name, number)
        if run.latest_generation < self.deployed(name, run.generation):
            return replace(found, latest=0, stored=frozenset())
        return replace(found, stored=frozenset(self.exact[name].kept))

    def chosen_checkpoint(self, name: str, rng: random.Random) -> int | None:
        """Sometimes an operator asks for an older checkpoint than the newest."""
        kept = self.exact[name].kept
        return rng.choice(kept) if kept and rng.random() < 0.5 else None

    def absent(self, name: str) -> set[str]:
        exact = self.exact[name]
        if exact.in_force is None:
            return set(exact.topology.partitions)
        # The plan in ZooKeeper counts as well: the driver will adopt it, even if nodes have died since.
        plans = (exact.in_force.assignment, exact.plan.assignment)
        return {
            partition
            for partition in exact.topology.partitions
            if not all(self.nodes.get(plan.get(partition, ""), False) for plan in plans)
        }

    def state(self, name: str) -> str:
        return self.exact[name].state

    def report(self, name: str) -> DriverReported:
        exact = self.exact[name]
        tracker = exact.tracker
        started = exact.in_force is not None
        return DriverReported(
            at=self.now,
            topology=name,
            generation=exact.in_force.generation if exact.in_force is not None else 0,
            state=exact.state,
            head=exact.head,
            committed=tracker.committed,
            checkpoint=0,
            absent=frozenset(tracker.absent) if started else frozenset(),
            behind=frozenset(tracker.behind(exact.head)) if started else frozenset(),
            refused=exact.refused,
            restorable=frozenset(exact.restorable),
        )

    def settle(self, rounds: int = 200) -> None:
        self.calm = True
        for exact in self.exact.values():
            exact.flaws = False
        super().settle(rounds)
        self.follow_runs()
        for name, exact in self.exact.items():
            for _ in range(60):
                exact.turn(present=0)
            if exact.state == "restoring" and exact.tracker.committed == exact.head:
                # The checkpoint is the newest epoch, so that the next job is that of the next epoch.
                exact.turn(present=1)
            assert exact.generation == exact.plan.generation, f"{name}: {exact.plan} was never applied"
            assert exact.settled(), (name, exact.state, exact.tracker.progress, exact.head)
            exact.validate()
            for _ in range(8):
                exact.turn(present=1)
            self.check_buffers(name)
            self.count("topologies verified")
        runs = self.exact.values()
        self.counts["epochs verified"] = sum(len(exact.outside.history.outputs) for exact in runs)
        self.counts["partitions taken over"] = sum(exact.taken_over for exact in runs)
        self.counts["partitions handed over"] = sum(exact.handed_over for exact in runs)
        self.counts["epochs replayed in forks"] = sum(exact.replayed for exact in runs)

    def check_buffers(self, name: str) -> None:
        assert not self.exact[name].buffered(), f"{name}: buffers are left after the incident"


class ReplicatedWorld(ExactWorld):
    """With replicas. A partition for which one acts is where the coordinator does not know."""

    replicated = True

    def absent(self, name: str) -> set[str]:
        acting = self.exact[name].tracker.acting
        return {p for p in super().absent(name) if not self.nodes.get(acting.get(p, ""), False)}


def wire_plan(plan: Plan, deployed: int) -> coordination.Plan:
    """The plan as the driver reads it in ZooKeeper. deployed: generation of the plan that deployed the
    topology."""
    return coordination.Plan(
        generation=plan.generation,
        kind=plan.kind,  # type: ignore[arg-type]  # one of the literals
        assignment=dict(plan.assignment),
        wave=plan.wave,
        method=plan.method,
        rollback=plan.rollback and plan.incident is not None,
        checkpoint=plan.checkpoint,
        restore=list(plan.restore),
        buffering=plan.method == "incremental",
        deployed=deployed,
    )


def counted(seed: int, *, length: int, actions: Sequence[str]) -> dict[str, int]:
    world = run_schedule(seed, length=length, kind=ExactWorld, actions=actions)
    return {**world.counts, "incidents": len(world.incidents)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--length", type=int, default=60, help="most actions in a schedule")
    parser.add_argument("--moves", action="store_true", help="operators move what runs, too")
    parser.add_argument("--parking", action="store_true", help="queries are parked and return, too")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    actions = WITH_PARKING if given.parking else WITH_MOVES if given.moves else ACTIONS
    run = partial(counted, length=given.length, actions=actions)
    _, failing = run_seeds(run, count=given.count, first=given.first, processes=given.processes)
    return 1 if failing else 0


if __name__ == "__main__":
    sys.exit(main())
