"""The store of the incident world. As with the database, a machine is loaded from it, gets an event, and its
instructions are carried out. The rules are checked at every step."""

from __future__ import annotations

import json
from collections.abc import Collection

from domain.planning import UniformDelay
from domain.recovery import facts
from domain.recovery.events import DriverReported, Event, NodesLost
from domain.recovery.incident import NodeView, Request, State
from domain.recovery.incremental import Incremental
from domain.recovery.instructions import (
    AskForNode,
    CreatePlan,
    EnterState,
    GiveUpRequest,
    Instruction,
    Involve,
    KeepCosts,
    MarkParked,
    MarkPlan,
    Tell,
)
from domain.recovery.machine import IncidentMachine
from domain.recovery.memory import Memory, PlanRecord, case_rebuild
from tests.simulation.incident_planners import Planners
from tests.simulation.incident_rows import CURRENT, Plan
from tests.simulation.incident_rules import BOUND, Rules


class Store(Rules):
    """Gives each event to a new machine."""

    def __init__(self) -> None:
        super().__init__()
        self.planners = Planners()

    def load(self, number: int, may_plan: bool) -> IncidentMachine:
        recorded = facts.facts_read(number, enumerate(self.entries[number]))
        memory = Memory.recall(recorded, self.costs[number])
        deployments = {name: self.deployment(name, number) for name in self.runs}
        cases = {}
        for name in self.involved[number]:
            plan = self.newest(name)
            record = PlanRecord(
                generation=plan.generation, state=plan.state, ours=plan.incident == number,
                wave=plan.wave, checkpoint=plan.checkpoint, rollback=plan.rollback, method=plan.method,
                restore=frozenset(plan.restore), applied_at=plan.applied_at,
                caught_up_at=plan.caught_up_at,
            )  # fmt: skip
            cases[name] = case_rebuild(
                name, record, self.runs[name].generation, memory,
                unassigned=deployments[name].unassigned, before=deployments[name].before,
            )  # fmt: skip
        return IncidentMachine(
            number=number,
            deployments=deployments,
            nodes={
                name: NodeView(
                    name=name, alive=name not in self.recorded_lost,
                    usable=name not in self.recorded_lost | self.draining | self.standbys,
                    standby=name in self.standbys - self.recorded_lost - self.draining,
                    capacity=self.capacity[name],
                )
                for name in self.nodes
            },
            state=self.incidents[number],
            cases=cases,
            requests=[
                Request(
                    key=r.key, lost_node=r.lost_node, attempt=r.attempt, state=r.state, node=r.node,
                    started_at=r.started_at, requested_at=r.requested_at, capacity=r.capacity,
                )
                for r in self.requests[number].values()
            ],
            memory=memory,
            max_utilisation=BOUND,
            replay_reserve=self.replay_reserve,
            may_plan=may_plan,
            queries_awaited=self.awaited(number),
            opened_at=0.0,
            delay=UniformDelay(5.0, 30.0),
            incremental=Incremental(planner_of=self.planners),
        )  # fmt: skip

    # ---- one step --------------------------------------------------------------------------------

    def feed(self, *events: Event, may_plan: bool = True, new: bool = False) -> None:
        """One transaction: load, handle, store. A new machine for each step stands for a restart at each
        step."""
        number = self.open_incident()
        if number is None:
            if not new:
                return
            number = len(self.incidents) + 1
            self.incidents[number] = State.OPEN
            self.entries[number], self.requests[number], self.involved[number] = [], {}, set()
            self.costs[number] = {}
        machine = self.load(number, may_plan)
        if any(isinstance(event, NodesLost) for event in events):
            for case in machine.cases.values():
                self.count(f"nodes lost while {case.phase}")
        instructions = machine.handle_stimulus(*events)
        machine.validate_state()
        reports = [event for event in events if isinstance(event, DriverReported)]
        for instruction in instructions:
            self.store(number, instruction, machine, reports)
        for instruction in instructions:
            if isinstance(instruction, CreatePlan):
                self.check_load(number, instruction, machine)
        self.check_rebuilt(machine, self.load(number, may_plan))

    def awaited(self, number: int) -> frozenset[str]:
        """Queries that failed and are late, as `topology/query`."""
        return frozenset()

    def check_rebuilt(self, machine: IncidentMachine, again: IncidentMachine) -> None:
        """A machine loaded from the store equals the one that was stored."""
        for name, case in machine.cases.items():
            rebuilt = again.cases[name]
            assert rebuilt.phase == case.phase, (name, case, rebuilt)
            if case.phase in ("verified", "dropped"):
                continue
            for what in (
                "failed", "unrestored", "forced", "generation", "wave", "rollback", "method", "restore",
                "applied", "rollback_pending", "origin", "moves", "applied_at",
                "caught_up_at",
            ):  # fmt: skip
                assert getattr(rebuilt, what) == getattr(case, what), (what, case, rebuilt)
        for what in (
            "paused", "approved", "proposals", "costs", "lost", "avoided", "drained", "loss_times",
            "caught_up", "method", "refused", "parked", "parked_by_policy", "limits",
        ):  # fmt: skip
            assert getattr(again.memory, what) == getattr(machine.memory, what), what

    def store(
        self,
        number: int,
        instruction: Instruction,
        machine: IncidentMachine,
        reports: list[DriverReported],
    ) -> None:
        match instruction:
            case Tell(fact=fact):
                if fact is not None:  # through JSON, as in the database
                    self.entries[number].append(json.dumps(instruction.data))
                    self.note(number, fact)
            case KeepCosts(costs=costs):
                self.keep_costs(number, json.loads(json.dumps(costs)), machine.deployments)
            case AskForNode(key=key, lost_node=lost, attempt=attempt):
                assert key not in self.requests[number], f"asked twice: {key}"
                assert number not in self.paused, "asked for a node while paused"
                self.requests[number][key] = Request(
                    key=key, lost_node=lost, attempt=attempt, requested_at=self.now,
                    capacity=self.capacity.get(lost, 100.0),
                )  # fmt: skip
            case MarkParked(topology=name, queries=queries):
                self.parked[name] = queries
                self.count("changes of what is parked")
            case GiveUpRequest(key=key):
                self.requests[number][key].state = "failed"
            case CreatePlan():
                self.check_plan(number, instruction, machine)
                if taken := self.standbys.intersection(instruction.assignment.values()):
                    assert machine.memory.lost or machine.memory.avoided, (
                        "a standby is used, and nothing failed"
                    )
                    self.standbys -= taken
                    self.count("standbys that took over")
                self.store_plan(number, instruction)
            case MarkPlan(topology=name, generation=generation, state=state):
                for plan in self.plans:
                    ours = (plan.topology, plan.generation, plan.incident) == (name, generation, number)
                    if ours and state == "caught_up":
                        assert plan.caught_up_at is None, "told twice to have caught up"
                        self.check_caught_up(plan, machine, reports)
                        plan.caught_up_at = machine.cases[name].caught_up_at
                    elif ours and plan.state in CURRENT:
                        plan.state = state
                        if state == "applied":
                            plan.applied_at = machine.cases[name].applied_at
            case EnterState(state=entered):
                self.incidents[number] = entered
                if entered is State.CLOSED:
                    self.check_closed(machine)
            case Involve(topology=name):
                self.involved[number].add(name)
            case _:
                pass

    def keep_costs(self, number: int, costs: dict[str, dict[str, float]], deployed: Collection[str]) -> None:
        kept = self.costs[number]
        fixed = {
            name for name in costs if not kept.get(name, {}).keys() >= set(self.runs[name].graph.partitions)
        }
        for name in costs.keys() - fixed:
            assert all(cost >= kept[name][p] for p, cost in costs[name].items()), "fixed costs only rise"
            self.count("costs raised")
        kept.update(costs)
        if fixed:
            self.check_costs(number, fixed, deployed)

    def note(self, number: int, fact: facts.Fact) -> None:
        match fact:
            case facts.Rebalancing(moves=moves):
                self.count("moves wanted" if moves else "moves given up")
            case facts.RoomMade():
                assert self.rooms_made.get(number) != fact, "moved again for the same room"
                self.rooms_made[number] = fact
                self.rooms_open.add(number)
                self.count("rooms made by moves")
            case facts.Paused():
                self.paused.add(number)
            case facts.Resumed():
                self.paused.discard(number)
            case facts.Proposed(proposal=proposal):
                self.proposed[proposal] = fact
                self.count("proposals")
            case facts.Approved(proposal=proposal):
                self.approved.add(proposal)
                self.count("approvals")

    def store_plan(self, number: int, new: CreatePlan) -> None:
        run = self.runs[new.topology]
        run.generation = new.generation
        self.count(f"plans to {new.kind}")
        if new.kind == "recover" and number in self.rooms_open:
            self.rooms_open.discard(number)
            self.count("waves into rooms made")
        for plan in self.plans:
            if plan.topology == new.topology and plan.state in CURRENT:
                plan.state = "superseded"
        self.plans.append(
            Plan(
                new.topology, new.generation, dict(new.assignment), "planned", new.wave, new.checkpoint,
                number, new.restore, new.rollback, new.method, kind=new.kind,
            )
        )  # fmt: skip
