"""A small world for the incident state machine: nodes, drivers, a store, and messages that are lost, repeated
and reordered. Only the machine is real; the rest is a simple simulation."""

from __future__ import annotations

import random
from typing import Any

from domain.recovery.events import (
    CheckpointCompleted,
    DriverReported,
    Event,
    Looked,
    NodeArrived,
    NodeReturned,
    NodesLost,
    PlanPublished,
    PlanRefused,
)
from domain.recovery.policy import RecoveryPolicy
from domain.topology import Topology
from tests.simulation.incident_graphs import topology
from tests.simulation.incident_orders import Orders
from tests.simulation.incident_rows import CURRENT, Driver, Plan, Run
from tests.simulation.incident_rules import BOUND


class World(Orders):
    """`act(name, choice)` does one thing; `settle()` lets everything that can happen happen.

    graphs, policies: one each per topology. costs: the largest cost of a partition in CPU percent; zero
    leaves everything unmeasured. capacities: of the nodes, in turn.
    """

    def __init__(
        self,
        nodes: int = 4,
        widths: tuple[int, ...] = (4, 2),
        *,
        graphs: tuple[Topology, ...] = (),
        policies: tuple[RecoveryPolicy, ...] = (RecoveryPolicy(),),
        costs: float = 0.0,
        capacities: tuple[float, ...] = (100.0,),
        seed: int = 0,
    ) -> None:
        super().__init__()
        rng = random.Random(seed)
        self.replay_reserve = 1.6 if seed % 2 else 1.0
        self.nodes = {f"node-{i}": True for i in range(1, nodes + 1)}
        self.capacity = {f"node-{i}": capacities[(i - 1) % len(capacities)] for i in range(1, nodes + 1)}
        self.inbox: list[Event] = []
        for index, graph in enumerate(graphs or [topology(f"t{i}", width) for i, width in enumerate(widths)]):
            assignment = {partition: f"node-{1 + i % nodes}" for i, partition in enumerate(graph.partitions)}
            plan = Plan(graph.name, 1, assignment, "applied")
            self.plans.append(plan)
            self.runs[graph.name] = Run(
                graph,
                1,
                driver=Driver(1, dict(assignment), applied=[1]),
                policy=policies[index % len(policies)],
                # Some stay unmeasured, and some nodes are overloaded from the start.
                costs={p: rng.uniform(0.1, costs) for p in graph.partitions if costs and rng.random() < 0.9},
                in_force=plan,
                generations_seen=[1],
                heavy=seed % 3 > 0,
            )

    # ---- things that happen ----------------------------------------------------------------------

    def act(self, name: str, choice: int) -> None:
        self.now += 1.0
        getattr(self, f"do_{name}")(random.Random(choice))

    def do_kill(self, rng: random.Random) -> None:
        alive = [node for node, up in self.nodes.items() if up]
        if not alive:
            return
        count = rng.randint(1, min(3, len(alive)))
        victims = rng.sample(alive, count)
        for node in victims:
            self.nodes[node] = False
        if rng.random() < 0.8:
            self.detect(victims)

    def detect(self, victims: list[str]) -> None:
        fresh = [node for node in victims if node not in self.recorded_lost]
        if fresh:
            self.recorded_lost.update(fresh)
            self.draining.difference_update(fresh)
            self.feed(NodesLost(at=self.now, nodes=dict.fromkeys(fresh, "gone")), may_plan=False, new=True)

    def do_detect(self, rng: random.Random) -> None:
        self.detect([node for node, up in self.nodes.items() if not up])

    def do_return(self, rng: random.Random) -> None:
        """A node that was recorded as lost was alive all the time."""
        lost = sorted(self.recorded_lost)
        if lost:
            node = rng.choice(lost)
            self.nodes[node] = True
            self.recorded_lost.discard(node)
            event = NodeReturned(at=self.now, node=node, evidence="a new session")
            self.feed(event, may_plan=False)
            self.inbox.append(event)

    def do_arrive(self, rng: random.Random) -> None:
        self.arrive(rng, size=rng.choice([1.0, 1.0, 1.0, 0.5, 2.0]))

    def arrive(self, rng: random.Random, size: float = 1.0) -> None:
        """A replacement arrives; the provider may bring a smaller or a larger machine than requested."""
        number = self.open_incident()
        waiting = [
            request
            for requests in ([self.requests[number]] if number else self.requests.values())
            for request in requests.values()
            if request.state in ("pending", "started")
        ]
        if waiting:
            request = rng.choice(waiting)
            request.state = "joined"
            request.node = f"node-{len(self.nodes) + 1}"
            self.nodes[request.node] = True
            self.capacity[request.node] = request.capacity * size
            event = NodeArrived(at=self.now, node=request.node)
            self.feed(event, may_plan=False)
            self.inbox.append(event)

    def do_extra(self, rng: random.Random) -> None:
        """A node joins without a request, every third one as a standby."""
        node = f"node-{len(self.nodes) + 1}"
        self.nodes[node], self.capacity[node] = True, rng.choice([30.0, 100.0])
        if len(self.nodes) % 3 == 0:
            self.standbys.add(node)
        self.feed(NodeArrived(at=self.now, node=node), may_plan=False)

    def do_reuse_name(self, rng: random.Random) -> None:
        """A lost node registers as a new process under its old name."""
        lost = sorted(self.recorded_lost)
        if lost:
            node = rng.choice(lost)
            self.nodes[node] = True
            self.recorded_lost.discard(node)
            self.feed(NodeArrived(at=self.now, node=node), may_plan=False)

    def do_request_start(self, rng: random.Random) -> None:
        self._request(rng, "pending", "started")

    def do_request_fail(self, rng: random.Random) -> None:
        self._request(rng, "pending", "failed")

    def _request(self, rng: random.Random, before: str, after: Any) -> None:
        waiting = [r for rs in self.requests.values() for r in rs.values() if r.state == before]
        if waiting:
            request = rng.choice(waiting)
            request.state, request.started_at = after, self.now

    def do_time(self, rng: random.Random) -> None:
        self.now += rng.choice([1.0, 30.0, 200.0])

    def do_publish(self, rng: random.Random) -> None:
        for run in self.runs.values():
            plan = self.newest(run.graph.name)
            if plan.state not in CURRENT or run.in_force is None:
                continue
            if run.in_force.generation > plan.generation:
                refused = PlanRefused(
                    at=self.now, topology=plan.topology, generation=plan.generation,
                    in_force=run.in_force.generation,
                )  # fmt: skip
                run.generation = max(run.generation, run.in_force.generation)
                self.inbox.append(refused)
                continue
            if run.in_force.generation < plan.generation:
                run.in_force = plan
                run.generations_seen.append(plan.generation)
            self.inbox.append(PlanPublished(at=self.now, topology=plan.topology, generation=plan.generation))

    def do_step(self, rng: random.Random) -> None:
        """The recovery worker looks at ZooKeeper and takes a step."""
        events: list[Event] = []
        for name, run in self.runs.items():
            events.append(
                CheckpointCompleted(
                    at=self.now, topology=name, checkpoint=run.latest, generation=run.latest_generation
                )
            )
        self.feed(*events, *[self.report(name) for name in self.runs], *events, Looked(at=self.now))

    def do_deliver(self, rng: random.Random) -> None:
        """One of the messages under way arrives; it may arrive again later."""
        if self.inbox:
            index = rng.randrange(len(self.inbox))
            event = self.inbox[index]
            if rng.random() < 0.6:
                del self.inbox[index]
            # Detection reports the return of a node once, before it records other events of it.
            if not isinstance(event, NodeReturned) or event.node not in self.recorded_lost:
                self.feed(event, may_plan=rng.random() < 0.5)

    # ---- drivers ---------------------------------------------------------------------------------

    def do_drive(self, rng: random.Random) -> None:
        """Each driver adopts the newest plan when all its nodes are alive, or continues to replay, and
        reports."""
        for name, run in self.runs.items():
            plan, driver = run.in_force, run.driver
            assert plan is not None
            if plan.generation > driver.generation and all(self.nodes[n] for n in plan.assignment.values()):
                self.adopt(plan, driver)
            elif driver.starting or driver.fresh:
                driver.starting = driver.fresh = False
            else:
                driver.behind -= self.catch_up(name, rng)
                driver.epoch += 1
            self.inbox.append(self.report(name))

    def catch_up(self, name: str, rng: random.Random) -> set[str]:
        """Partitions of a topology that have replayed all that they had missed."""
        behind = self.runs[name].driver.behind - self.absent(name)
        return {p for p in sorted(behind) if rng.random() < 0.7}

    def adopt(self, plan: Plan, driver: Driver) -> None:
        assert plan.generation not in driver.applied, "a plan was applied twice"
        driver.generation = plan.generation
        driver.applied.append(plan.generation)
        driver.running = dict(plan.assignment)
        driver.fresh = True
        back = () if plan.kind == "move" else plan.restore
        driver.behind = set(plan.assignment if plan.rollback else back) | (
            driver.behind & plan.assignment.keys()
        )
        if plan.rollback:
            driver.epoch = plan.checkpoint

    def do_restart_driver(self, rng: random.Random) -> None:
        self.runs[rng.choice(sorted(self.runs))].driver.starting = True

    def do_checkpoint(self, rng: random.Random) -> None:
        """A global checkpoint needs every partition."""
        for name, run in self.runs.items():
            if self.state(name) in ("running", "replaying") and not self.absent(name):
                run.latest = max(run.latest, run.driver.epoch)
                run.latest_generation = run.driver.generation
                self.inbox.append(
                    CheckpointCompleted(
                        at=self.now, topology=name, checkpoint=run.latest, generation=run.latest_generation
                    )
                )

    def absent(self, name: str) -> set[str]:
        run = self.runs[name]
        return {p for p in run.graph.partitions if not self.nodes.get(run.driver.running.get(p, ""), False)}

    def state(self, name: str) -> str:
        driver = self.runs[name].driver
        if driver.starting:
            return "starting"
        if self.absent(name):
            return "degraded"
        if driver.fresh:
            return "restoring"
        return "replaying" if driver.behind else "running"

    def report(self, name: str) -> DriverReported:
        driver = self.runs[name].driver
        absent = self.absent(name)
        return DriverReported(
            at=self.now, topology=name, generation=driver.generation, state=self.state(name),
            head=driver.epoch, committed=driver.epoch, checkpoint=0, absent=frozenset(absent),
            behind=frozenset(driver.behind - absent),
        )  # fmt: skip

    # ---- the end ---------------------------------------------------------------------------------

    def settle(self, rounds: int = 150) -> None:
        """All due events happen: requested nodes arrive, plans are confirmed and published, drivers proceed,
        and a recovery is requested for what an abort left down. Where every node has become too small for a
        partition, a larger one is added, as the story advises."""
        rng = random.Random(0)
        for _ in range(rounds):
            self.now += 1.0
            self._add_large_node()
            self.do_detect(rng)
            self.do_resume(rng)
            self.arrive(rng)
            for name in [name for name, queries in self.parked.items() if queries]:
                self.park(name, frozenset())
            self.do_step(rng)
            number = self.open_incident()
            if number is not None:
                for proposed in self.load(number, False).open_proposals().values():
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
                    return

    def _add_large_node(self) -> None:
        number = self.open_incident()
        costs = self.costs[number].values() if number is not None else ()
        needed = max((cost for mine in costs for cost in mine.values()), default=0.0)
        usable = [node for node, up in self.nodes.items() if up and node not in self.draining]
        if usable and max(self.capacity[node] for node in usable) * BOUND < needed:
            node = f"node-{len(self.nodes) + 1}"
            self.nodes[node], self.capacity[node] = True, 2 * needed / BOUND
            self.count("larger nodes added")
            self.feed(NodeArrived(at=self.now, node=node), may_plan=False)
