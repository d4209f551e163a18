"""A small world for the incident state machine: nodes, drivers, a store, and messages that get lost,
repeated and reordered. Only the machine is real; everything around it is as simple as it can be."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

from controlplane.domain.recovery.incident import (
    ENDED_STATES,
    AskForNode,
    CheckpointCompleted,
    CreatePlan,
    Deployment,
    DriverReported,
    EnterState,
    Event,
    GiveUpRequest,
    Instruction,
    Looked,
    MarkPlan,
    NodeArrived,
    NodeReturned,
    NodesLost,
    NodeView,
    PlanPublished,
    PlanRefused,
    RecoveryAsked,
    Request,
    State,
    Tell,
)
from controlplane.domain.recovery.machine import IncidentMachine
from controlplane.domain.recovery.memory import Memory, PlanRecord, case_rebuild
from controlplane.domain.recovery.method import Blocking
from controlplane.domain.topology import Topology, TopologySpec
from controlplane.domain.topology.spec import InputSpec, OperatorSpec

CURRENT = ("planned", "published", "applied")


def topology(name: str, width: int) -> Topology:
    """Source -> keyed operator -> output, `width` partitions each."""
    return Topology(
        TopologySpec(
            name=name,
            operators=(
                OperatorSpec(name="Source", kind="file", parallelism=width),
                OperatorSpec(
                    name="Count", kind="count", parallelism=width,
                    inputs=(InputSpec(source="Source", partitioning="full"),),
                ),
                OperatorSpec(
                    name="Top", kind="top", parallelism=width, output=True,
                    inputs=(InputSpec(source="Count", partitioning="one_to_one"),),
                ),
            ),
        )
    )  # fmt: skip


@dataclass(slots=True)
class Plan:
    topology: str
    generation: int
    assignment: dict[str, str]
    state: str
    wave: int = 0
    checkpoint: int = 0
    incident: int | None = None
    restore: tuple[str, ...] = ()


@dataclass(slots=True)
class Driver:
    generation: int
    epoch: int = 20
    state: str = "running"
    applied: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Run:
    graph: Topology
    generation: int
    latest: int = 10
    latest_generation: int = 1
    in_force: Plan | None = None
    driver: Driver = field(default_factory=lambda: Driver(1, applied=[1]))
    generations_seen: list[int] = field(default_factory=list)


class World:
    """`act(name, choice)` does one thing; `settle()` lets everything that can happen happen."""

    def __init__(self, nodes: int = 4, widths: tuple[int, ...] = (4, 2)) -> None:
        self.now = 0.0
        self.nodes = {f"node-{i}": True for i in range(1, nodes + 1)}
        self.recorded_lost: set[str] = set()
        self.runs: dict[str, Run] = {}
        self.plans: list[Plan] = []
        self.entries: dict[int, list[dict[str, Any]]] = {}
        self.requests: dict[int, dict[str, Request]] = {}
        self.incidents: dict[int, State] = {}
        self.involved: dict[int, set[str]] = {}
        self.inbox: list[Event] = []
        for index, width in enumerate(widths):
            graph = topology(f"t{index}", width)
            assignment = {partition: f"node-{1 + i % nodes}" for i, partition in enumerate(graph.partitions)}
            plan = Plan(graph.name, 1, assignment, "applied")
            self.plans.append(plan)
            self.runs[graph.name] = Run(graph, 1, in_force=plan, generations_seen=[1])

    # ---- the store -------------------------------------------------------------------------------

    def newest(self, name: str) -> Plan:
        return max((plan for plan in self.plans if plan.topology == name), key=lambda plan: plan.generation)

    def open_incident(self) -> int | None:
        return next((n for n, state in self.incidents.items() if state not in ENDED_STATES), None)

    def load(self, number: int, may_plan: bool) -> IncidentMachine:
        memory = Memory.recall(self.entries[number])
        cases = {}
        for name in self.involved[number]:
            plan = self.newest(name)
            record = PlanRecord(
                generation=plan.generation, state=plan.state, ours=plan.incident == number,
                wave=plan.wave, checkpoint=plan.checkpoint, restore=frozenset(plan.restore),
            )  # fmt: skip
            cases[name] = case_rebuild(name, record, self.runs[name].generation, memory)
        return IncidentMachine(
            number=number,
            method=Blocking(),
            deployments={
                name: Deployment(
                    topology=run.graph,
                    generation=run.generation,
                    assignment=dict(self.newest(name).assignment),
                    latest=run.latest,
                )
                for name, run in self.runs.items()
            },
            nodes={
                name: NodeView(name=name, alive=up, usable=up)
                for name, up in ((name, name not in self.recorded_lost) for name in self.nodes)
            },
            state=self.incidents[number],
            cases=cases,
            requests=[
                Request(
                    key=r.key, lost_node=r.lost_node, attempt=r.attempt, state=r.state, node=r.node,
                    started_at=r.started_at,
                )
                for r in self.requests[number].values()
            ],
            memory=memory,
            may_plan=may_plan,
            opened_at=0.0,
        )  # fmt: skip

    def feed(self, *events: Event, may_plan: bool = True, new: bool = False) -> None:
        """One transaction: load, handle, store. A fresh machine each time is a restart each time."""
        number = self.open_incident()
        if number is None:
            if not new:
                return
            number = len(self.incidents) + 1
            self.incidents[number] = State.OPEN
            self.entries[number], self.requests[number], self.involved[number] = [], {}, set()
        machine = self.load(number, may_plan)
        instructions = machine.handle_stimulus(*events)
        machine.validate_state()
        for instruction in instructions:
            self.store(number, instruction)
        again = self.load(number, may_plan)
        for name, case in machine.cases.items():
            assert again.cases[name].phase == case.phase, (name, case, again.cases[name])
            for what in ("failed", "unrestored", "forced", "generation", "wave"):
                assert getattr(again.cases[name], what) == getattr(case, what), (
                    what,
                    case,
                    again.cases[name],
                )

    def store(self, number: int, instruction: Instruction) -> None:
        match instruction:
            case Tell(fact=fact):
                # Facts go through JSON as in the database.
                self.entries[number].append(json.loads(json.dumps(dict(fact))))
            case AskForNode(key=key, lost_node=lost, attempt=attempt):
                assert key not in self.requests[number], f"asked twice: {key}"
                self.requests[number][key] = Request(key=key, lost_node=lost, attempt=attempt)
            case GiveUpRequest(key=key):
                self.requests[number][key].state = "failed"
            case CreatePlan():
                run = self.runs[instruction.topology]
                assert run.generation == instruction.expected, "compare and set failed"
                assert instruction.generation > run.generation, "generations only grow"
                run.generation = instruction.generation
                for plan in self.plans:
                    if plan.topology == instruction.topology and plan.state in CURRENT:
                        plan.state = "superseded"
                self.plans.append(
                    Plan(
                        instruction.topology, instruction.generation, dict(instruction.assignment), "planned",
                        instruction.wave, instruction.checkpoint, number, instruction.restore,
                    )
                )  # fmt: skip
                dead = {n for n in instruction.assignment.values() if n in self.recorded_lost}
                assert not dead, f"planned on lost nodes {dead}"
                assert set(instruction.assignment) == set(run.graph.partitions)
            case MarkPlan(topology=name, generation=generation, state=state):
                for plan in self.plans:
                    ours = (plan.topology, plan.generation, plan.incident) == (name, generation, number)
                    if ours and plan.state in CURRENT:
                        plan.state = state
            case EnterState(state=entered):
                self.incidents[number] = entered
            case _:
                if hasattr(instruction, "topology") and type(instruction).__name__ == "Involve":
                    self.involved[number].add(instruction.topology)

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
            self.feed(NodesLost(at=self.now, nodes=dict.fromkeys(fresh, "gone")), may_plan=False, new=True)

    def do_detect(self, rng: random.Random) -> None:
        self.detect([node for node, up in self.nodes.items() if not up])

    def do_return(self, rng: random.Random) -> None:
        """A node given up was alive all the time."""
        lost = sorted(self.recorded_lost)
        if lost:
            node = rng.choice(lost)
            self.nodes[node] = True
            self.recorded_lost.discard(node)
            self.feed(NodeReturned(at=self.now, node=node, evidence="a new session"), may_plan=False)

    def do_arrive(self, rng: random.Random) -> None:
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
            event = NodeArrived(at=self.now, node=request.node)
            self.feed(event, may_plan=False)
            self.inbox.append(event)

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
        """A message arrives: any of those under way, and it may arrive again."""
        if self.inbox:
            index = rng.randrange(len(self.inbox))
            event = self.inbox[index]
            if rng.random() < 0.6:
                del self.inbox[index]
            self.feed(event, may_plan=rng.random() < 0.5)

    def do_drive(self, rng: random.Random) -> None:
        """Each driver applies the plan in force, or gets on, and reports."""
        for name, run in self.runs.items():
            plan, driver = run.in_force, run.driver
            assert plan is not None
            if plan.generation > driver.generation:
                driver.generation, driver.state = plan.generation, "restoring"
                assert plan.generation not in driver.applied, "a plan was applied twice"
                driver.applied.append(plan.generation)
                driver.epoch = plan.checkpoint
            elif driver.state in ("starting", "restoring"):
                driver.state = "replaying"
            elif self.absent(name):
                driver.state = "degraded"
            elif driver.state in ("replaying", "degraded"):
                driver.epoch, driver.state = driver.epoch + 10, "running"
            else:
                driver.epoch += 1
            self.inbox.append(self.report(name))

    def do_restart_driver(self, rng: random.Random) -> None:
        run = self.runs[rng.choice(sorted(self.runs))]
        run.driver.state = "starting"

    def do_checkpoint(self, rng: random.Random) -> None:
        for name, run in self.runs.items():
            if run.driver.state in ("running", "replaying") and not self.absent(name):
                run.latest = max(run.latest, run.driver.epoch)
                run.latest_generation = run.driver.generation
                self.inbox.append(
                    CheckpointCompleted(
                        at=self.now, topology=name, checkpoint=run.latest, generation=run.latest_generation
                    )
                )

    def do_recover_now(self, rng: random.Random) -> None:
        name = rng.choice(sorted(self.runs))
        self.feed(
            RecoveryAsked(at=self.now, topology=name, actor="operator", reason="impatient"),
            may_plan=False, new=True,
        )  # fmt: skip

    def do_redeploy(self, rng: random.Random) -> None:
        """An operator deploys the topology anew while whatever goes on goes on."""
        name = rng.choice(sorted(self.runs))
        run = self.runs[name]
        alive = [node for node in self.nodes if node not in self.recorded_lost]
        if not alive:
            return
        run.generation += 1
        for plan in self.plans:
            if plan.topology == name and plan.state in CURRENT:
                plan.state = "superseded"
        assignment = {p: alive[i % len(alive)] for i, p in enumerate(run.graph.partitions)}
        self.plans.append(Plan(name, run.generation, assignment, "planned"))

    # ---- what can be seen ------------------------------------------------------------------------

    def absent(self, name: str) -> set[str]:
        plan = self.runs[name].in_force
        assert plan is not None
        return {p for p, node in plan.assignment.items() if not self.nodes[node]}

    def report(self, name: str) -> DriverReported:
        driver = self.runs[name].driver
        return DriverReported(
            at=self.now, topology=name, generation=driver.generation, state=driver.state,
            head=driver.epoch, committed=driver.epoch, checkpoint=0, absent=frozenset(self.absent(name)),
        )  # fmt: skip

    def settle(self, rounds: int = 60) -> None:
        """Everything that is due happens: nodes come, plans are published, drivers get on."""
        rng = random.Random(0)
        for _ in range(rounds):
            self.now += 1.0
            self.do_detect(rng)
            for _ in range(len(self.nodes) + 4):
                self.do_arrive(rng)
            self.do_step(rng)
            self.do_publish(rng)
            for _ in range(30):
                self.do_deliver(rng)
            self.do_drive(rng)
            self.do_checkpoint(rng)
            if self.open_incident() is None and not any(self.absent(name) for name in self.runs):
                return
