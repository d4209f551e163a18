"""The incident world with CPU that is short, and costs that are wrong by up to three times.

The machine plans with what is measured of partitions; what they really take decides whether a topology keeps
pace with its input and works off what it has missed. Nodes come when they are asked for. Run many schedules
with `python -m tests.simulation.scarce_world --count 1000`.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

from domain.capacity import Pace
from domain.capacity.saturation import FALLS, FULL
from domain.execution.catching_up import LEAST, NEVER, SOON
from domain.execution.epoch_machine import MINUTE, MOST_WAITS, STUCK
from domain.execution.job_sizes import KEPT, LOOK_EVERY
from domain.recovery import overload
from domain.recovery.costs import costs_fix
from domain.recovery.events import DriverReported, NodeArrived, ParkAsked
from domain.recovery.incident import Deployment, NodeView
from domain.recovery.memory import Memory
from domain.recovery.policy import RecoveryPolicy
from tests.simulation.incident_graphs import branches
from tests.simulation.incident_rows import Driver, Plan
from tests.simulation.incident_rules import BOUND
from tests.simulation.incident_schedules import check, check_ended
from tests.simulation.incident_world import World
from tests.simulation.many_seeds import run_seeds

WRONG = 3.0
"""Costs are between a third of the truth and three times the truth."""
KNOWN_AFTER = 30.0
"""Seconds after a plan from which the pace of a topology is known."""
OVERLOADED = 3.0
STUCK_AFTER = KEPT + LOOK_EVERY
LATE_FROM, LATE_FOR = 0.8, 120.0
"""Load from which queries that have caught up are late all the same, and for how many seconds at most: then
what they take is their usual latency."""
ROUND = 5.0
MOST_PLANS = 40
ACTIONS = (
    "kill", "kill", "detect", "detect", "return", "arrive", "arrive", "reuse_name", "request_fail", "publish",
    "publish", "publish", "step", "step", "step", "step", "step", "deliver", "deliver", "deliver", "drive",
    "drive", "drive", "drive", "drive", "drive", "checkpoint", "surge", "calm", "drain", "restart_driver",
    "approve", "priorities", "some_time", "some_time", "some_time",
)  # fmt: skip


class ScarceWorld(World):
    """truth: topology -> partition -> CPU percent that it really takes. waiting: seconds of input, by
    topology. usual: load in peace, by topology. by_overload: incidents that were opened for it."""

    def __init__(self, *, truth: dict[str, dict[str, float]], **given: Any) -> None:
        super().__init__(**given)
        self.truth = truth
        self.surge = 1.0
        self.waiting = dict.fromkeys(self.runs, 0.0)
        self.usual: dict[str, float] = {}
        self.by_overload: set[int] = set()
        # Of the look before.
        self.loads: dict[str, float] = {}
        self.adopted_at = dict.fromkeys(self.runs, -math.inf)
        self.full_since: dict[str, float] = {}
        self.driven_at = 0.0

    def do_surge(self, rng: random.Random) -> None:
        """More comes in than usual."""
        self.surge = rng.uniform(1.0, 1.6)

    def do_calm(self, rng: random.Random) -> None:
        self.surge = 1.0

    def do_some_time(self, rng: random.Random) -> None:
        self.now += rng.choice([1.0, 5.0, 20.0])

    def work(self, name: str) -> float:
        """Seconds of work for each second of input: what the busiest node of a topology has to do."""
        used: defaultdict[str, float] = defaultdict(float)
        for other, run in self.runs.items():
            for partition, node in run.driver.running.items():
                if self.nodes.get(node):
                    used[node] += self.truth[other][partition] * self.surge
        mine = {node for node in self.runs[name].driver.running.values() if self.nodes.get(node)}
        return max((used[node] / self.capacity[node] for node in mine), default=0.0)

    def answering(self, name: str) -> bool:
        """Whether a query is among those furthest ahead; where all go back, all are."""
        absent, behind = self.absent(name), self.runs[name].driver.behind
        late = absent if behind >= set(self.runs[name].graph.partitions) - absent else absent | behind
        return any(not late & whole for whole in self.runs[name].graph.query_partitions.values())

    def do_drive(self, rng: random.Random) -> None:
        seconds, self.driven_at = self.now - self.driven_at, self.now
        for name in self.runs:
            work = self.work(name)
            self.waiting[name] = max(0.0, self.waiting[name] + (work - 1.0) * seconds)
            # The product parks when more waits (`WAITS`): what follows from parking is tried more often here.
            if work >= FULL and self.waiting[name] > 0:
                self.full_since.setdefault(name, self.now)
            else:
                self.full_since.pop(name, None)
                if self.open_incident() is None and not self.absent(name):
                    self.usual[name] = self.load_of(name)
            if self.now - self.adopted_at[name] > KNOWN_AFTER:
                self.measure(name, rng)
        super().do_drive(rng)

    def measure(self, name: str, rng: random.Random) -> None:
        """What has run for a while is known better; costs of an open incident stay as they are."""
        run = self.runs[name]
        for partition in sorted(run.driver.running.keys() - self.absent(name)):
            run.costs[partition] = self.truth[name][partition] * rng.uniform(0.85, 1.15)

    def catch_up(self, name: str, rng: random.Random) -> set[str]:
        if self.work(name) >= 1.0 or self.waiting[name] > 1.0:
            return set()
        late = self.runs[name].driver.behind | self.absent(name)
        graph = self.runs[name].graph
        return {p for p in super().catch_up(name, rng) if not late & set(graph.upstream(p))}

    def adopt(self, plan: Plan, driver: Driver) -> None:
        super().adopt(plan, driver)
        self.adopted_at[plan.topology] = self.now
        self.full_since.pop(plan.topology, None)

    def load_of(self, name: str) -> float:
        return self.work(name) * (1.0 + min(self.waiting[name], MOST_WAITS) / MINUTE)

    def deployment(self, name: str, number: int) -> Deployment:
        deployment = super().deployment(name, number)
        deployment.usual_load = self.usual.get(name)
        return deployment

    def awaited(self, number: int) -> frozenset[str]:
        late: set[str] = set()
        for name in self.involved[number]:
            plan = self.newest(name)
            since = math.inf if plan.caught_up_at is None else self.now - plan.caught_up_at
            if plan.incident == number and since < LATE_FOR and self.work(name) >= LATE_FROM:
                late.update(f"{name}/{query}" for query in self.runs[name].graph.queries)
        return frozenset(late)

    def report(self, name: str) -> DriverReported:
        since = self.now - self.adopted_at[name]
        # A replay that gets no time comes no nearer, and the driver sees that after some seconds.
        left = 1.0 - self.work(name)
        catch_up = (self.waiting[name] / left if left > 0.0 else NEVER) if since >= LEAST else None
        not_gaining = since - LEAST if catch_up is not None and catch_up > SOON else 0.0
        report = replace(super().report(name), catch_up=catch_up, not_gaining=not_gaining)
        if self.answering(name):
            return replace(report, load=self.load_of(name))
        stuck = self.work(name) >= 1.0 and since > STUCK_AFTER
        return replace(report, load=STUCK if stuck else 0.0)

    def do_step(self, rng: random.Random) -> None:
        super().do_step(rng)
        for name in self.runs:
            self.park_by_policy(name)

    def park_by_policy(self, name: str) -> None:
        """As the control plane does it (`controlplane.incidents.overload`)."""
        if self.adopted_at[name] + KNOWN_AFTER > self.now or self.runs[name].policy.overload != "automatic":
            return
        number = self.open_incident()
        machine = self.load(number, may_plan=False) if number is not None else None
        if machine is not None and machine.memory.paused:
            return
        memory = machine.memory if machine is not None else Memory()
        nodes = {
            node: NodeView(
                name=node,
                alive=node not in self.recorded_lost,
                usable=node not in self.recorded_lost | self.draining | self.standbys,
                capacity=self.capacity[node],
            )
            for node in self.nodes
        }
        deployments = {one: self.deployment(one, number or 0) for one in self.runs}
        costs = {**memory.costs, **costs_fix(deployments, nodes, memory.costs, BOUND)}
        since = self.full_since.get(name)
        falls = self.load_of(name) < FALLS * self.loads.get(name, 0.0)
        self.loads[name] = self.load_of(name)
        parking = overload.parking_for(
            name,
            deployments,
            usable=[node for node in nodes.values() if node.usable],
            costs=costs,
            pace=Pace(
                self.load_of(name),
                self.waiting[name],
                since,
                usual=self.usual.get(name) if number is None or number in self.by_overload else None,
                falls=falls,
            ),
            overloaded=since is not None and self.now - since >= OVERLOADED,
            case=machine.cases.get(name) if machine is not None else None,
            memory=memory,
            now=self.now,
        )
        if parking is not None:
            self.count("changes by policy")
            event = ParkAsked(
                at=self.now,
                topology=name,
                queries=parking.queries,
                actor="",
                reason=parking.reason,
                limits=parking.limits,
            )
            self.feed(event, may_plan=False, new=True)
            opened = self.open_incident()
            if number is None and opened is not None:
                self.by_overload.add(opened)

    def settle(self, rounds: int = 600) -> None:
        """Nothing fails any more, and nodes that are asked for come: the incident must end. Where nodes are
        drained, those that are left may have no room for what is parked; then the drained ones come back."""
        self.surge = 1.0
        if self._settles(rounds):
            return
        number = self.open_incident()
        if number is None or not self.draining or not all(self._only_parked(name) for name in self.runs):
            return
        self.count("drained nodes put back")
        for node in sorted(self.draining):
            self.draining.discard(node)
            self.feed(NodeArrived(at=self.now, node=node), may_plan=False)
        self._settles(rounds)

    def _only_parked(self, name: str) -> bool:
        held = self.runs[name].graph.exclusive_partitions(self.parked.get(name, frozenset()))
        return self.absent(name) <= held and not self.runs[name].driver.behind - held

    def _settles(self, rounds: int) -> bool:
        rng = random.Random(0)
        for number in range(rounds):
            self.now += ROUND
            self.do_detect(rng)
            self.arrive(rng)
            self.do_step(rng)
            open_now = self.open_incident()
            if open_now is not None:
                for proposed in self.load(open_now, False).open_proposals().values():
                    self.approve(proposed.proposal)
                self.do_step(rng)
            self.do_publish(rng)
            for _ in range(30):
                self.do_deliver(rng)
            self.do_drive(rng)
            self.do_checkpoint(rng)
            if self.open_incident() is None:
                down = [name for name in self.runs if self.absent(name)]
                if down:
                    self.recover_now(down[0])
                elif not any(run.driver.behind for run in self.runs.values()):
                    self.counts["rounds to settle"] = number
                    return True
        return False


def scarce_world_of(seed: int) -> ScarceWorld:
    """Topologies, capacities that bind, and wrong costs, drawn from the seed."""
    rng = random.Random(f"scarce-{seed}")
    nodes = rng.randint(3, 6)
    graphs = [branches("t0", rng.randint(2, 5), deterministic=rng.random() < 0.8)]
    if rng.random() < 0.3:
        graphs.append(branches("t1", rng.randint(2, 3)))
    policies = tuple(
        RecoveryPolicy(
            method=rng.choice(["auto", "auto", "incremental", "blocking"]),
            approval=rng.choice(["automatic", "automatic", "automatic", "approve"]),
            rollback=rng.choice(["ancestors", "ancestors", "global"]),
        )
        for _ in graphs
    )
    world = ScarceWorld(
        nodes=nodes,
        graphs=tuple(graphs),
        policies=policies,
        seed=seed,
        truth={graph.name: {p: rng.uniform(4.0, 20.0) for p in graph.partitions} for graph in graphs},
    )
    used: defaultdict[str, float] = defaultdict(float)
    for name, run in world.runs.items():
        run.costs = {p: cost * WRONG ** rng.uniform(-1.0, 1.0) for p, cost in world.truth[name].items()}
        run.priorities = {query: rng.randint(1, 10) for query in run.graph.queries}
        for partition, node in run.driver.running.items():
            used[node] += world.truth[name][partition]
    for node in world.nodes:
        world.capacity[node] = max(used[node], 10.0) / rng.uniform(0.5, 0.78)
    return world


def run_scarce(seed: int, *, length: int = 60) -> ScarceWorld:
    """Run the schedule of this seed; raises AssertionError if a rule does not hold."""
    world = scarce_world_of(seed)
    rng = random.Random(f"scarce-schedule-{seed}")
    for _ in range(rng.randint(5, length)):
        world.act(rng.choice(ACTIONS), rng.randrange(10_000))
        check(world)
    world.settle()
    check(world)
    check_ended(world)
    assert not any(world.parked.values()), f"still parked: {world.parked}"
    assert most_plans(world) <= MOST_PLANS, "it goes round in circles"
    return world


def most_plans(world: ScarceWorld) -> int:
    """Of one topology in one incident."""
    counted = Counter((plan.incident, plan.topology) for plan in world.plans if plan.incident is not None)
    return max(counted.values(), default=0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    most = 0

    def counted(seed: int) -> dict[str, int]:
        nonlocal most
        world = run_scarce(seed)
        most = max(most, most_plans(world))
        return world.counts

    _, failing = run_seeds(counted, count=given.count, first=given.first)
    print("most plans of one topology in an incident:", most)
    return 1 if failing else 0


if __name__ == "__main__":
    sys.exit(main())
