"""The simulated world of one recovery, and its course from the first failure to the last closed incident."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from domain.recovery.events import (
    CheckpointCompleted,
    Looked,
    NodeArrived,
    NodesLost,
    PlanPublished,
    PlanRefused,
)
from domain.recovery.incident import NodeView
from domain.recovery.instructions import (
    AskForCheckpoint,
    AskForNode,
    CreatePlan,
    GiveUpRequest,
    Instruction,
    KeepCosts,
)
from domain.recovery.reserve import PATIENCE
from domain.simulation.agenda import Agenda
from domain.simulation.coordinator import Coordinator
from domain.simulation.driver import SimulatedDriver
from domain.simulation.fluid import NEVER, Flags, Floats, Fluid
from domain.simulation.going_on import GoingOn
from domain.simulation.outcome import (
    LatencyPoint,
    Outcome,
    QueryOutcome,
    availability_curve,
)
from domain.simulation.provider import Coming, Provider
from domain.simulation.scenario import Failure, Scenario
from domain.simulation.watch import QueryWatch
from domain.simulation.wave_log import WaveLog


def simulate(scenario: Scenario) -> Outcome:
    """Let the recovery happen. The same scenario always gives the same outcome."""
    return World(scenario).run()


class World:
    """Everything that there is. Built for one run."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        start = scenario.first_failure
        ages = [scenario.age_of(one) for one in scenario.topologies]
        oldest, newest = start - max(ages), start - min(ages)
        self.agenda = Agenda(oldest)
        graphs = [one.topology for one in scenario.topologies]
        self.fluid = Fluid(graphs, speed=scenario.replay_speed, at=oldest)
        latencies = [one.latency for one in scenario.topologies for _ in one.topology.queries]
        self.watch = QueryWatch(self.fluid, latencies, scenario.policy)
        self.going_on = GoingOn(scenario.topologies, self.fluid)
        self.coordinator = Coordinator(scenario, self._carry_out)
        self.waves = WaveLog(scenario, self.fluid, self.coordinator)
        self.alive = {node.name for node in scenario.nodes}
        self.drivers = {
            one.topology.name: SimulatedDriver(
                one.topology,
                agenda=self.agenda,
                fluid=self.fluid,
                changed=self._changed,
                delays=scenario.delays,
                alive=self.alive,
                checkpoint_at=start - scenario.age_of(one),
                assignment=dict(one.assignment),
                replicas=dict(one.replicas),
                report_due=self._report,
                applied=self._applied,
            )
            for one in scenario.topologies
        }
        self.provider = Provider(scenario, self.agenda, self._come)
        self.failed: Flags = np.zeros(len(self.fluid.queries), dtype=bool)
        self.restored_at: Floats = np.full(len(self.fluid.queries), NEVER)
        self.latency: list[LatencyPoint] = []
        self.arrivals: list[Coming] = []
        self._relative: list[tuple[float, Floats]] = []
        self._looking = False
        self._waited = scenario.replay_reserve <= 1.0
        self._unknown_failures = len(scenario.failures)
        for failure in scenario.failures:
            self.agenda.at(failure.at, partial(self._fail, failure))
        self.agenda.at(max(start, newest + scenario.checkpoint_interval), self._checkpoints, routine=True)
        self.agenda.at(start, self._sample, routine=True)

    # ---- the course ------------------------------------------------------------------------------

    def run(self, each_step: Callable[[], None] = lambda: None) -> Outcome:
        """`each_step` is called after every event, which may interrupt it by raising."""
        end = self.scenario.first_failure + self.scenario.limit
        while self._goes_on():
            due = self.agenda.next_at
            if due is None or due > end:
                break
            self.agenda.step()
            each_step()
        self.fluid.advance(self.agenda.now)
        self.watch.finish()
        self.going_on.finish()
        return self._outcome()

    def _goes_on(self) -> bool:
        if not self._unknown_failures and not self.coordinator.open:
            return False
        if not self.agenda.pending and self.coordinator.open:
            # Nothing is under way. One more look, in case time alone makes a difference.
            self._look()
        if not self.agenda.pending and self.coordinator.open and not self._waited:
            # By then no wave keeps room from the others.
            self._waited = True
            self.agenda.after(PATIENCE + 1.0, self._look)
        return self.agenda.pending

    def _fail(self, failure: Failure) -> None:
        nodes = self.coordinator.nodes
        dead = {
            name
            for name in self.alive
            if name in failure.nodes or (nodes[name].rack and nodes[name].rack in failure.racks)
        }
        if not dead:
            self._unknown_failures -= 1
            return
        self.alive -= dead
        self.fluid.advance(self.agenda.now)
        lost = np.concatenate([driver.lose(dead) for driver in self.drivers.values()])
        hit = self.fluid.touched(lost)
        self.failed |= hit
        self.restored_at[hit] = NEVER
        self._changed()
        self.agenda.after(self.scenario.delays.detection, partial(self._detect, dead))

    def _detect(self, dead: Iterable[str]) -> None:
        self._unknown_failures -= 1
        evidence = dict.fromkeys(sorted(dead), "its registration is gone and its heartbeat is silent")
        # What replicas have taken over is known as soon as the loss is.
        told = [driver.report() for driver in self.drivers.values() if driver.acting]
        self.coordinator.take_in(NodesLost(at=self.agenda.now, nodes=evidence), *told, opens=True)
        self.waves.refresh(self.coordinator.deployments)
        self._look_soon()

    def _come(self, coming: Coming) -> None:
        self.arrivals.append(coming)
        self.alive.add(coming.name)
        self.coordinator.nodes[coming.name] = NodeView(
            name=coming.name, alive=True, usable=True, capacity=coming.capacity, rack=coming.rack
        )
        machine = self.coordinator.machine
        if machine is not None and coming.key in machine.requests:
            request = machine.requests[coming.key]
            request.state, request.node = "joined", coming.name
        self.coordinator.take_in(NodeArrived(at=self.agenda.now, node=coming.name))
        self._look_soon()

    def _look_soon(self) -> None:
        if not self._looking:
            self._looking = True
            self.agenda.after(self.scenario.delays.look, self._look)

    def _look(self) -> None:
        self._looking = False
        self.coordinator.look(Looked(at=self.agenda.now))

    def _changed(self) -> None:
        self.watch.changed()
        self.going_on.changed()

    def _report(self, topology: str) -> None:
        self.coordinator.take_in(self.drivers[topology].report())
        self.going_on.changed()
        self._look_soon()

    def _checkpoints(self) -> None:
        for driver in self.drivers.values():
            driver.checkpoint_take(self._checkpointed, routine=True)
        self.agenda.after(self.scenario.checkpoint_interval, self._checkpoints, routine=True)

    def _checkpointed(self, event: CheckpointCompleted) -> None:
        deployment = self.coordinator.deployments[event.topology]
        deployment.latest = max(deployment.latest, event.checkpoint)
        self.coordinator.take_in(event)
        self._look_soon()

    def _sample(self) -> None:
        self.fluid.advance(self.agenda.now)
        self._relative.append((self.agenda.now, self.watch.relative()))
        self.agenda.after(self.scenario.sample_every, self._sample, routine=True)

    # ---- what the coordinator wants --------------------------------------------------------------

    def _carry_out(self, instructions: list[Instruction]) -> None:
        plans: list[CreatePlan] = []
        for instruction in instructions:
            match instruction:
                case AskForNode(key=key, lost_node=lost):
                    node = self.coordinator.nodes.get(lost)
                    capacity = node.capacity if node is not None else self.provider.spare_capacity
                    self.provider.ask(key, capacity=capacity, rack=node.rack if node is not None else "")
                case GiveUpRequest(key=key):
                    self.provider.cancel(key)
                case KeepCosts(costs=costs):
                    self.waves.keep(costs)
                case CreatePlan():
                    plans.append(instruction)
                    self.agenda.after(self.scenario.delays.publication, partial(self._publish, instruction))
                case AskForCheckpoint(topology=name):
                    # Once the instructions are carried out: it may complete without delay.
                    driver = self.drivers[name]
                    take = partial(driver.checkpoint_take, self._checkpointed, routine=False)
                    self.agenda.after(0.0, take)
                case _:
                    pass
        if plans:
            self._waited = self.scenario.replay_reserve <= 1.0
            self.waves.add(plans, at=self.agenda.now, seconds=self.coordinator.seconds)

    def _publish(self, plan: CreatePlan) -> None:
        driver = self.drivers[plan.topology]
        at, name, generation = self.agenda.now, plan.topology, plan.generation
        if driver.publish(plan):
            self.coordinator.take_in(PlanPublished(at=at, topology=name, generation=generation))
        else:
            refused = PlanRefused(at=at, topology=name, generation=generation, in_force=driver.newest)
            self.coordinator.take_in(refused)
        self._look_soon()

    def _applied(self, plan: CreatePlan) -> None:
        whole = self.fluid.whole()
        back = self.failed & whole & (self.restored_at == NEVER)
        self.restored_at[back] = self.agenda.now
        self.waves.applied(plan, at=self.agenda.now)

    # ---- what it came to -------------------------------------------------------------------------

    def _outcome(self) -> Outcome:
        scenario = self.scenario
        priorities = [
            self.coordinator.deployments[one.topology.name].priorities[query]
            for one in scenario.topologies
            for query in one.topology.queries
        ]
        queries = tuple(
            QueryOutcome(
                name=name,
                priority=priorities[i],
                failed=bool(self.failed[i]),
                restored_at=None if self.restored_at[i] == NEVER else float(self.restored_at[i]),
                gaps=tuple(self.watch.gaps[i]),
                tentative=self.going_on.within(name, self.watch.gaps[i]),
            )
            for i, name in enumerate(self.fluid.queries)
        )
        return Outcome(
            method=scenario.method,
            planner=scenario.planner if scenario.method == "incremental" else "",
            rollback=scenario.rollback if scenario.method == "incremental" else "global",
            started_at=scenario.first_failure,
            ended_at=self.agenda.now,
            ended=not self.coordinator.open and not self._unknown_failures,
            incidents=self.coordinator.incidents.count,
            waves=tuple(self.waves.outcomes()),
            queries=queries,
            curve=availability_curve(queries, scenario.first_failure),
            latency=tuple(self._latency_point(at, values) for at, values in self._relative),
            arrivals=tuple(self.arrivals),
            planning_seconds=self.coordinator.total_seconds,
        )

    def _latency_point(self, at: float, relative: Floats) -> LatencyPoint:
        def mean(chosen: Flags) -> float:
            return float(relative[chosen].mean()) if chosen.any() else 1.0

        everything = np.ones(len(relative), dtype=bool)
        return LatencyPoint(at, mean(everything), mean(self.failed), mean(~self.failed))
