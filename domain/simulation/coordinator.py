"""The real incident state machine, planners and placement, fed with simulated facts.

One machine lives for as long as its incident does. The facts of a moment are taken in without planning,
and one look a little later (`Delays.look`) plans upon all of them, as the recovery worker's step does.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from domain.planning import Arrival, LookAhead, Planner, UniformDelay, planner_named
from domain.recovery.events import Event
from domain.recovery.incident import ENDED_STATES, Deployment, NodeView, State
from domain.recovery.incremental import Incremental
from domain.recovery.instructions import Instruction
from domain.recovery.machine import IncidentMachine
from domain.recovery.policy import RecoveryPolicy
from domain.simulation.scenario import Scenario


def unhurried_planner(name: str, arrivals: Iterable[Arrival]) -> Planner:
    """The planner of that name without its emergency brake in seconds, so that plans do not depend on the
    machine that simulates."""
    if name == LookAhead.name:
        return LookAhead(tuple(arrivals), time_limit=math.inf)
    return planner_named(name)


@dataclass(slots=True)
class Incidents:
    """How many incidents there were, and in which state the last one is."""

    count: int = 0
    state: State = State.CLOSED


def deployments_of(scenario: Scenario) -> dict[str, Deployment]:
    """The topologies as recovery knows them before the failure."""
    return {
        one.topology.name: Deployment(
            topology=one.topology,
            generation=1,
            assignment=dict(one.assignment),
            costs=dict(one.costs),
            latest=1,
            priorities={query: one.topology.priority(query) for query in one.topology.queries}
            | dict(one.priorities),
            policy=RecoveryPolicy(
                method=scenario.method,
                planner=scenario.planner,
                rollback=one.rollback or scenario.rollback,
            ),
            tentative=one.tentative,
        )
        for one in scenario.topologies
    }


def nodes_of(scenario: Scenario) -> dict[str, NodeView]:
    return {
        node.name: NodeView(
            name=node.name, alive=True, usable=node.usable, capacity=node.capacity, rack=node.rack
        )
        for node in scenario.nodes
    }


class Coordinator:
    """`deployments` and `nodes` are shared with the world, which keeps them up to date."""

    def __init__(self, scenario: Scenario, carry_out: Callable[[list[Instruction]], None]) -> None:
        self._scenario, self._carry_out = scenario, carry_out
        self.deployments = deployments_of(scenario)
        self.nodes = nodes_of(scenario)
        self.incidents = Incidents()
        self.machine: IncidentMachine | None = None
        # CPU time of the last step and of all, for figures about planning; nothing depends on it.
        self.seconds = self.total_seconds = 0.0

    @property
    def open(self) -> bool:
        return self.machine is not None and self.machine.state not in ENDED_STATES

    def take_in(self, *events: Event, opens: bool = False) -> None:
        """Facts, in order. Only some of them open an incident where none is; else they are history."""
        self._feed(events, opens=opens, may_plan=False)

    def look(self, *events: Event) -> None:
        """Decide upon what is known."""
        self._feed(events, opens=False, may_plan=True)

    def _feed(self, events: Iterable[Event], *, opens: bool, may_plan: bool) -> None:
        if not self.open:
            if not opens:
                return
            self.machine = self._machine_new()
        machine = self.machine
        assert machine is not None  # noqa: S101 - tells mypy what `open` means
        machine.may_plan = may_plan
        started = time.thread_time()
        instructions = machine.handle_stimulus(*events)
        self.seconds = time.thread_time() - started
        self.total_seconds += self.seconds
        machine.validate_state()
        self.incidents.state = machine.state
        self._carry_out(instructions)

    def _machine_new(self) -> IncidentMachine:
        self.incidents.count += 1
        for deployment in self.deployments.values():
            deployment.homes, deployment.before = dict(deployment.assignment), deployment.generation
        return IncidentMachine(
            number=self.incidents.count,
            deployments=self.deployments,
            nodes=self.nodes,
            max_utilisation=self._scenario.max_utilisation,
            replay_reserve=self._scenario.replay_reserve,
            delay=_expected(self._scenario),
            incremental=Incremental(planner_of=unhurried_planner),
        )


def _expected(scenario: Scenario) -> UniformDelay | None:
    """What the coordinator expects of the provider; None where no planner asks, because with hundreds of
    requests it takes longer than planning."""
    if scenario.planner != LookAhead.name:
        return None
    if isinstance(scenario.arrivals, UniformDelay):
        return scenario.arrivals
    # A list of moments is what really happens; to be expected is what a provider was seen to take.
    return UniformDelay(min(scenario.arrivals), max(scenario.arrivals)) if scenario.arrivals else None
