"""Carrying out the instructions of the incident state machine on the database, as one event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings

from controlplane.checkpoints.services import checkpoint_restored
from controlplane.errors import Conflict
from controlplane.events.choices import EventKind
from controlplane.events.representation import Change
from controlplane.events.services import event_publish
from controlplane.incidents.choices import IncidentState, PlanKind, PlanState
from controlplane.incidents.models import Incident, IncidentEntry, RecoveryPlan
from controlplane.incidents.plan_states import PLAN_EVENTS
from controlplane.incidents.representation import entry_change, incident_change, plan_change, plan_moved
from controlplane.incidents.step_plans import StepPlans
from controlplane.nodes.choices import (
    NODE_AWAITED,
    NODE_PRESENT,
    NODE_REQUEST_OPEN,
    NodeRequestState,
    NodeState,
)
from controlplane.nodes.models import Node, NodeRequest
from controlplane.nodes.representation import node_change
from controlplane.nodes.selectors import node_names_fresh, racks_for_new
from controlplane.nodes.states import node_move, request_move
from controlplane.topologies.choices import PartitionState, RecoveryMethod, TopologyStatus
from controlplane.topologies.failures import Affected
from controlplane.topologies.models import Topology
from controlplane.topologies.representation import topology_change
from domain.recovery.facts import MethodChosen
from domain.recovery.incident import State
from domain.recovery.instructions import (
    AskForCheckpoint,
    AskForNode,
    CreatePlan,
    EnterState,
    EntryKind,
    GiveUpRequest,
    Instruction,
    Involve,
    KeepCosts,
    MarkParked,
    MarkPartitions,
    MarkPlan,
    Tell,
)
from domain.recovery.wording import standbys_took_over


class StalePlan(Conflict):
    """Another transaction gave the topology a newer generation; look again and plan again."""


@dataclass(slots=True)
class Applied:
    """What must be done outside of the database once the transaction has committed.

    publish: topologies with a plan to put into ZooKeeper; checkpoint: those to take one now."""

    publish: list[str] = field(default_factory=list)
    checkpoint: list[str] = field(default_factory=list)
    changed: bool = False


# Of several things that happened in one step, the event is named for the first of these.
_SIGNIFICANCE = (
    EventKind.INCIDENT_OPENED,
    EventKind.INCIDENT_CLOSED,
    EventKind.INCIDENT_GROWN,
    EventKind.PLAN_VERIFIED,
    EventKind.PLAN_APPLIED,
    EventKind.PLAN_PUBLISHED,
    EventKind.PLAN_SUPERSEDED,
)


class Application:
    """One step of one incident, inside the caller's transaction; the incident's row is locked.

    What it reads and changes is of hundreds of topologies, and other writers wait for it: it is read at once,
    and written together after all instructions.
    """

    def __init__(self, incident: Incident, at: datetime) -> None:
        self.incident = incident
        self.at = at
        self.applied = Applied()
        self.kinds: set[EventKind] = set()
        self.reason = ""
        self._changes: dict[tuple[str, str], Change] = {}
        self._affected = Affected()
        self._plans = StepPlans(at)
        self._entries: list[IncidentEntry] = []
        self._involved: list[Topology] = []
        self._plans_made: list[RecoveryPlan] = []
        self._nodes_asked: list[AskForNode] = []
        self._running_on: set[str] = set()

    def carry_out(self, instructions: Iterable[Instruction]) -> None:
        """Carry out `instructions` in order; raises `StalePlan`."""
        wanted = [*instructions]
        if not wanted:
            return
        self._read(wanted)
        for instruction in wanted:
            self._ACTIONS[type(instruction)](self, instruction)
        self.applied.changed = True
        self._write()

    def finish(self) -> Applied:
        """Publish one event about everything that has changed, if anything has."""
        self._write()
        if self.applied.changed:
            self.incident.save()
            self.add(incident_change(self.incident))
            kind = next((k for k in _SIGNIFICANCE if k in self.kinds), EventKind.INCIDENT_UPDATED)
            event_publish(
                kind=kind,
                incident=self.incident.number,
                changes=list(self._changes.values()),
                reason=self.reason,
            )
        return self.applied

    def _read(self, instructions: Iterable[Instruction]) -> None:
        """What these need to know."""
        involved, of_rows, created = set[str](), set[str](), set[str]()
        marked: set[tuple[str, int]] = set()
        for one in instructions:
            match one:
                case Involve(topology=name):
                    involved.add(name)
                case CreatePlan(topology=name):
                    created.add(name)
                    of_rows.add(name)
                case MarkPartitions(topology=name, state=state) if state != "restoring":
                    of_rows.add(name)
                case MarkParked(topology=name):
                    of_rows.add(name)
                case MarkPlan(topology=name, generation=generation):
                    marked.add((name, generation))
        self._affected.read(sorted(of_rows), rows=True)
        self._affected.read(sorted(involved), rows=False)
        self._plans.read(current=created, marked=marked)

    def _write(self) -> None:
        self._ask_for_all_nodes()
        if self._involved:
            self.incident.topologies.add(*self._involved)
            self._involved.clear()
        self._affected.write()
        if not self._plans.write():
            raise StalePlan(f"incident {self.incident.number}: a plan was moved meanwhile; look again")
        for plan in self._plans_made:
            self.add(plan_change(plan, topology=plan.topology.name, incident=self.incident.number))
        self._plans_made.clear()
        if self._running_on:
            self.standbys_follow(self._running_on)
            self._running_on = set()
        IncidentEntry.objects.bulk_create(self._entries)
        self.add(*(entry_change(entry, incident=self.incident.number) for entry in self._entries))
        self._entries = []

    def add(self, *changes: Change) -> None:
        """Later changes of an entity are merged over earlier ones, as a client would."""
        for one in changes:
            key = (one["entity"], one["key"])
            earlier = self._changes.get(key)
            if earlier and earlier["fields"] is not None and one["fields"] is not None:
                fields = {**earlier["fields"], **one["fields"]}
                self._changes[key] = {"entity": one["entity"], "key": one["key"], "fields": fields}
            else:
                self._changes[key] = one

    def tell(self, kind: EntryKind, text: str) -> None:
        """Add a sentence to the story besides those the machine tells."""
        self._tell(Tell(kind=kind, text=text))

    # ---- instructions ----------------------------------------------------------------------------

    def _tell(self, told: Tell) -> None:
        entry = IncidentEntry(
            incident=self.incident, at=self.at, kind=told.kind, text=told.text, data=told.data
        )
        self._entries.append(entry)
        if told.kind == "stimulus":
            self.kinds.add(EventKind.INCIDENT_GROWN)
            self.incident.reason = self.incident.reason or told.text
        if told.kind in ("stimulus", "decision", "outcome"):
            self.reason = told.text[:500]
        if isinstance(told.fact, MethodChosen):
            # Not only with a plan: one that waits for an approval is made by this method already.
            self._method_follow(told.fact.method)

    def _involve(self, involve: Involve) -> None:
        self._involved.append(self._affected.topology(involve.topology))

    def _keep_costs(self, keep: KeepCosts) -> None:
        fixed = {name: dict(costs) for name, costs in keep.costs.items()}
        self.incident.costs = {**self.incident.costs, **fixed}

    def _ask_for_node(self, asked: AskForNode) -> None:
        self._nodes_asked.append(asked)

    def _ask_for_all_nodes(self) -> None:
        """Record the requests that are not known yet, and the nodes they ask for."""
        asked = {one.key: one for one in self._nodes_asked}
        self._nodes_asked = []
        if not asked:
            return
        known = {*NodeRequest.objects.filter(key__in=asked).values_list("key", flat=True)}
        fresh = [one for key, one in asked.items() if key not in known]
        if not fresh:
            return
        lost = {node.name: node for node in Node.objects.filter(name__in={one.lost_node for one in fresh})}
        racks = racks_for_new({node.rack for node in lost.values()})
        requests: list[NodeRequest] = []
        nodes: list[Node] = []
        for one, name in zip(fresh, node_names_fresh(), strict=False):
            like = lost.get(one.lost_node) or Node()
            wanted = {field: getattr(like, field) for field in ("slots", "capacity", "standby")}
            wanted["rack"] = racks.get(like.rack, like.rack)
            requests.append(
                NodeRequest(
                    key=one.key,
                    incident=self.incident,
                    node_name=name,
                    requested_at=self.at,
                    attempt=one.attempt,
                    **wanted,
                )
            )
            nodes.append(Node(name=name, provider=settings.RESURGE.provider, **wanted))
        NodeRequest.objects.bulk_create(requests)
        Node.objects.bulk_create(nodes)
        self.incident.wanted_nodes += len(fresh)
        self.add(*map(node_change, nodes))

    def _give_up_request(self, given_up: GiveUpRequest) -> None:
        self._ask_for_all_nodes()
        request = NodeRequest.objects.filter(key=given_up.key, state__in=NODE_REQUEST_OPEN).first()
        if request is None or not request_move(
            request, NodeRequestState.FAILED, at=self.at, error=given_up.reason
        ):
            return
        # One that has registered meanwhile stays: it serves as a spare.
        node = Node.objects.filter(name=request.node_name, state__in=NODE_AWAITED).first()
        if node is not None and node_move(node, NodeState.LEFT):
            self.add(node_change(node))

    def _create_plan(self, plan: CreatePlan) -> None:
        topology = self._affected.topology(plan.topology)
        if topology.generation != plan.expected:
            raise StalePlan(f"{plan.topology} has another generation than {plan.expected} by now; plan again")
        self._affected.generation_begin(plan.topology, plan.generation)
        for earlier in self._plans.current(plan.topology):
            self._move(earlier, PlanState.SUPERSEDED)
        row = RecoveryPlan(
            topology=topology,
            incident=self.incident,
            generation=plan.generation,
            wave=plan.wave,
            kind=plan.kind,
            method=plan.method,
            rollback=plan.rollback,
            buffering=plan.buffering,
            checkpoint=plan.checkpoint,
            assignment=dict(plan.assignment),
            restore=list(plan.restore),
            acting=topology.acting,
            stateless=_beginning(topology, plan.checkpoint, "stateless"),
            divided=_beginning(topology, plan.checkpoint, "divided"),
            reason=plan.reason,
            explanation=dict(plan.explanation),
        )
        self._plans.create(row)
        self._plans_made.append(row)
        self._method_follow(row.method)
        # What moves goes on; nothing is put back to a checkpoint.
        moves = plan.kind == "move"
        if not moves:
            self.incident.checkpoints = {**self.incident.checkpoints, plan.topology: plan.checkpoint}
            self.add(self._affected.status_set(plan.topology, TopologyStatus.RECOVERING))
        self.add(
            *self._affected.assign(
                plan.topology,
                plan.assignment,
                {} if moves else dict.fromkeys(plan.restore, PartitionState.RESTORING),
                whole=True,
            ),
            topology_change(topology, only=("generation",)),
        )
        self.applied.publish.append(plan.topology)
        self._running_on.update(plan.assignment.values())

    def standbys_follow(self, names: Iterable[str]) -> None:
        """A standby that got partitions is none any more; as many of the nodes that were asked for, and have
        not been started, become standbys. names: of nodes on which partitions run."""
        present = Node.objects.select_for_update().filter(state__in=NODE_PRESENT, standby=True)
        taken = list(present.filter(name__in=set(names)))
        if not taken:
            return
        self.applied.changed = True
        for node in taken:
            node.standby = False
            node.save(update_fields=["standby"])
            self.add(node_change(node))
        waiting = NodeRequest.objects.filter(
            incident=self.incident, state=NodeRequestState.PENDING, started_at=None, standby=False
        ).order_by("id")[: len(taken)]
        for request in waiting:
            request.standby = True
            request.save(update_fields=["standby"])
            asked = Node.objects.filter(name=request.node_name, state__in=NODE_AWAITED).first()
            if asked is not None:
                asked.standby = True
                asked.save(update_fields=["standby"])
                self.add(node_change(asked))
        self.tell("step", standbys_took_over([one.name for one in taken], len(waiting)))

    def _method_follow(self, method: str) -> None:
        """The incident is named for what it needed most: waves, else a blocking plan, else moves only."""
        if method == RecoveryMethod.INCREMENTAL:
            self.incident.method = RecoveryMethod.INCREMENTAL
        elif self.incident.method == RecoveryMethod.MOVE:
            self.incident.method = RecoveryMethod(method)

    def _mark_plan(self, mark: MarkPlan) -> None:
        row = self._plans.get(mark.topology, mark.generation)
        if row is not None and row.incident_id == self.incident.pk:
            if mark.state == "caught_up":
                self._caught_up(row)
            else:
                self._move(row, PlanState(mark.state))

    def _caught_up(self, row: RecoveryPlan) -> None:
        """A moment in the life of an applied plan, not a state: the next wave may supersede it later."""
        if row.caught_up_at is None:
            row.caught_up_at = self.at
            row.save(update_fields=["caught_up_at"])
            self._add_plan(row)

    def _move(self, row: RecoveryPlan, to: PlanState) -> None:
        if not self._plans.move(row, to):
            return
        self.kinds.add(PLAN_EVENTS[to])
        if to is PlanState.APPLIED and row.kind != PlanKind.MOVE:
            whole = row.rollback or row.kind == PlanKind.RESTORE
            undone_by = row.generation if whole else None
            self.add(
                *checkpoint_restored(
                    topology=row.topology, epoch=row.checkpoint, at=self.at, undone_by=undone_by
                )
            )
        self._add_plan(row)

    def _add_plan(self, row: RecoveryPlan) -> None:
        incident = row.incident.number if row.incident is not None else None
        self.add(plan_moved(row, topology=row.topology.name, incident=incident))

    def _mark_partitions(self, mark: MarkPartitions) -> None:
        if mark.state == "failed":
            self.add(*self._affected.fail(mark.topology, mark.partitions or ()))
            return
        if mark.state == "restoring":
            return  # the plan that restores them has set it
        labels = mark.partitions
        if labels is None:
            labels = frozenset(self._affected.rows(mark.topology).partitions)
        states = dict.fromkeys(labels, PartitionState(mark.state))
        self.add(*self._affected.assign(mark.topology, {}, states))

    def _mark_parked(self, mark: MarkParked) -> None:
        self.add(*self._affected.park(mark.topology, mark.queries))

    def _ask_for_checkpoint(self, asked: AskForCheckpoint) -> None:
        self.applied.checkpoint.append(asked.topology)

    def _enter(self, entered: EnterState) -> None:
        self.incident.state = IncidentState(entered.state)
        if entered.state in (State.CLOSED, State.ABORTED):
            self.incident.closed_at = self.at
            self.kinds.add(EventKind.INCIDENT_CLOSED)

    _ACTIONS: dict[type, Callable[..., None]] = {  # noqa: RUF012
        Tell: _tell,
        Involve: _involve,
        KeepCosts: _keep_costs,
        AskForNode: _ask_for_node,
        GiveUpRequest: _give_up_request,
        CreatePlan: _create_plan,
        MarkPlan: _mark_plan,
        MarkPartitions: _mark_partitions,
        MarkParked: _mark_parked,
        AskForCheckpoint: _ask_for_checkpoint,
        EnterState: _enter,
    }


def _beginning(topology: Topology, checkpoint: int, name: str) -> list[str]:
    """What a deployment that goes on from a checkpoint says of it: a plan may take the place of the first one
    before the driver has begun."""
    continues: Mapping[str, Any] = topology.continues or {}
    return list(continues.get(name, ())) if continues.get("checkpoint") == checkpoint else []
