"""Actions of operators in the incident world, at any moment and in any order."""

from __future__ import annotations

import random
from dataclasses import replace

from domain.recovery.events import (
    AbortAsked,
    ApproveAsked,
    DrainAsked,
    NodeArrived,
    ParkAsked,
    PartitionsLost,
    PauseAsked,
    RebalanceAsked,
    RecoveryAsked,
    ReplanAsked,
    ResumeAsked,
    TopologyWithdrawn,
)
from domain.recovery.policy import RecoveryPolicy
from tests.simulation.incident_graphs import PLANNERS, branches, topology
from tests.simulation.incident_rows import CURRENT, Plan
from tests.simulation.incident_store import Store


class Orders(Store):
    """Each `do_...` is one action of a schedule."""

    def do_recover_now(self, rng: random.Random) -> None:
        name = rng.choice(sorted(self.runs))
        self.recover_now(name, checkpoint=self.chosen_checkpoint(name, rng))

    def chosen_checkpoint(self, name: str, rng: random.Random) -> int | None:
        return None

    def recover_now(self, name: str, *, checkpoint: int | None = None) -> None:
        event = RecoveryAsked(
            at=self.now, topology=name, actor="operator", reason="impatient", checkpoint=checkpoint
        )
        self.feed(event, may_plan=False, new=True)

    def do_redeploy(self, rng: random.Random) -> None:
        """An operator deploys the topology again, whatever its state."""
        self.redeploy(rng.choice(sorted(self.runs)))

    def do_redeploy_changed(self, rng: random.Random) -> None:
        """It was undeployed before, and its specification is another now."""
        name = rng.choice(sorted(self.runs))
        if not self.nodes.keys() - self.recorded_lost - self.draining:
            return
        withdrawn = TopologyWithdrawn(at=self.now, topology=name, reason="it was undeployed")
        self.feed(withdrawn, may_plan=False)
        run = self.runs[name]
        run.graph = rng.choice([topology(name, rng.randint(1, 3)), branches(name, rng.randint(2, 4))])
        run.costs = {p: rng.uniform(0.1, 30.0) for p in run.graph.partitions if rng.random() < 0.5}
        run.priorities.clear()
        run.driver.running.clear()
        run.driver.behind.clear()
        self.count("changed topologies")
        self.redeploy(name)

    def redeploy(self, name: str) -> None:
        run = self.runs[name]
        alive = [node for node in self.nodes if node not in self.recorded_lost | self.draining]
        if not alive:
            return
        run.generation += 1
        for plan in self.plans:
            if plan.topology == name and plan.state in CURRENT:
                plan.state = "superseded"
        assignment = {p: alive[i % len(alive)] for i, p in enumerate(run.graph.partitions)}
        self.plans.append(Plan(name, run.generation, assignment, "planned", rollback=True))
        self.standbys.difference_update(assignment.values())

    def do_drain(self, rng: random.Random) -> None:
        alive = [node for node in self.nodes if node not in self.recorded_lost and node not in self.draining]
        if len(alive) > 1:
            node = rng.choice(alive)
            self.draining.add(node)
            event = DrainAsked(at=self.now, node=node, actor="operator", reason="new kernel")
            self.feed(event, may_plan=False, new=True)

    def do_activate(self, rng: random.Random) -> None:
        """A drained node may take partitions again."""
        drained = sorted(self.draining)
        if drained:
            node = rng.choice(drained)
            self.draining.discard(node)
            self.count("nodes activated")
            self.feed(NodeArrived(at=self.now, node=node), may_plan=False)

    def do_leave(self, rng: random.Random) -> None:
        """A drained node on which nothing runs any more goes in good order: no incident is told. It may be
        back later."""
        hosting = {node for name in self.runs for node in self.placed(name).values()}
        empty = sorted(self.draining - hosting)
        if empty:
            node = rng.choice(empty)
            self.nodes[node] = False
            self.draining.discard(node)
            self.recorded_lost.add(node)
            self.count("nodes that left")

    def do_rebalance(self, rng: random.Random) -> None:
        """Any partitions to any nodes that are taken to be alive."""
        name = rng.choice(sorted(self.runs))
        there = sorted(self.newest(name).assignment)
        alive = sorted(node for node in self.nodes if node not in self.recorded_lost | self.draining)
        if not there or not alive:
            return
        moves = {p: rng.choice(alive) for p in rng.sample(there, min(rng.randint(1, 3), len(there)))}
        event = RebalanceAsked(at=self.now, topology=name, moves=moves, actor="operator", reason="uneven")
        self.feed(event, may_plan=False, new=True)

    def do_park(self, rng: random.Random) -> None:
        """Some more queries are parked."""
        name = rng.choice(sorted(self.runs))
        running = sorted(set(self.runs[name].graph.queries) - self.parked.get(name, frozenset()))
        more = rng.sample(running, rng.randint(0, min(2, len(running))))
        self.park(name, self.parked.get(name, frozenset()) | set(more))

    def do_unpark(self, rng: random.Random) -> None:
        name = rng.choice(sorted(self.runs))
        parked = sorted(self.parked.get(name, ()))
        self.park(name, frozenset(rng.sample(parked, rng.randint(0, len(parked)))))

    def park(self, name: str, queries: frozenset[str]) -> None:
        """The queries of a topology that are parked from now on."""
        event = ParkAsked(at=self.now, topology=name, queries=queries, actor="operator", reason="overload")
        self.feed(event, may_plan=False, new=True)

    def do_partitions_lost(self, rng: random.Random) -> None:
        """Partitions are absent on a node that lives; sometimes the report is about an older plan."""
        name = rng.choice(sorted(self.runs))
        run = self.runs[name]
        there = sorted(p for p, node in run.driver.running.items() if node not in self.recorded_lost)
        if there:
            event = PartitionsLost(
                at=self.now, topology=name, generation=run.driver.generation,
                partitions=frozenset(rng.sample(there, min(2, len(there)))), evidence="absent for 45 s",
            )  # fmt: skip
            self.feed(event, may_plan=False, new=True)

    def do_pause(self, rng: random.Random) -> None:
        self.feed(PauseAsked(at=self.now, actor="operator", reason="wait"), may_plan=False)

    def do_resume(self, rng: random.Random) -> None:
        self.feed(ResumeAsked(at=self.now, actor="operator", reason="go on"), may_plan=False)

    def do_replan(self, rng: random.Random) -> None:
        self.feed(ReplanAsked(at=self.now, actor="operator", reason="try again"), may_plan=False)

    def do_abort(self, rng: random.Random) -> None:
        self.feed(AbortAsked(at=self.now, actor="operator", reason="maintenance"), may_plan=False)

    def do_approve(self, rng: random.Random) -> None:
        """A confirmation of any proposal that was ever made; most are out of date."""
        if self.proposed:
            names = list(self.proposed)
            self.approve(rng.choice([names[-1], rng.choice(names)]))

    def approve(self, proposal: str) -> None:
        event = ApproveAsked(at=self.now, actor="operator", reason="fine", proposal=proposal)
        self.feed(event, may_plan=False)

    def do_priorities(self, rng: random.Random) -> None:
        run = self.runs[rng.choice(sorted(self.runs))]
        run.priorities[rng.choice(run.graph.queries)] = rng.randint(1, 10)

    def do_policies(self, rng: random.Random) -> None:
        """All of a policy may change."""
        self.runs[rng.choice(sorted(self.runs))].policy = RecoveryPolicy(
            method=rng.choice(["auto", "auto", "incremental", "blocking"]),
            planner=rng.choice(PLANNERS),
            rollback=rng.choice(["ancestors", "global"]),
            approval=rng.choice(["automatic", "automatic", "approve"]),
            rebalancing=rng.choice(["automatic", "manual"]),
            overload=rng.choice(["automatic", "manual"]),
            correlation_threshold=rng.choice([1, 2, 3]),
        )

    def do_capacity(self, rng: random.Random) -> None:
        """A node has more or less CPU than before."""
        node = rng.choice(sorted(self.nodes))
        self.capacity[node] = max(10.0, self.capacity[node] * rng.choice([0.5, 0.7, 1.5]))

    def do_policy(self, rng: random.Random) -> None:
        """Policies may change in the middle of an incident."""
        run = self.runs[rng.choice(sorted(self.runs))]
        run.policy = replace(run.policy, approval=rng.choice(["automatic", "approve"]))
