"""Carrying out the instructions of the incident state machine on the database, as one event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings

from controlplane.checkpoints.services import checkpoint_restored
from controlplane.errors import Conflict
from controlplane.events.choices import EventKind
from controlplane.events.representation import Change
from controlplane.events.services import event_publish
from controlplane.incidents.choices import PLAN_CURRENT, IncidentState, PlanKind, PlanState
from controlplane.incidents.models import Incident, IncidentEntry, RecoveryPlan
from controlplane.incidents.plan_states import PLAN_EVENTS, plan_move
from controlplane.incidents.representation import entry_change, incident_change, plan_change
from controlplane.nodes.choices import (
    NODE_AWAITED,
    NODE_PRESENT,
    NODE_REQUEST_OPEN,
    NodeRequestState,
    NodeState,
)
from controlplane.nodes.models import Node, NodeRequest
from controlplane.nodes.representation import node_change
from controlplane.nodes.selectors import node_names_fresh
from controlplane.nodes.states import node_move, request_move
from controlplane.topologies.choices import PartitionState, RecoveryMethod, TopologyStatus
from controlplane.topologies.failures import (
    partitions_assign,
    partitions_failed,
    queries_parked,
    topology_status_set,
)
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
    """One step of one incident, inside the caller's transaction; the incident's row is locked."""

    def __init__(self, incident: Incident, at: datetime) -> None:
        self.incident = incident
        self.at = at
        self.applied = Applied()
        self.kinds: set[EventKind] = set()
        self.reason = ""
        self._changes: dict[tuple[str, str], Change] = {}
        self._topologies: dict[str, Topology] = {}
        self._names: Iterator[str] | None = None

    def carry_out(self, instructions: Iterable[Instruction]) -> None:
        """Carry out `instructions` in order; raises `StalePlan`."""
        for instruction in instructions:
            self._ACTIONS[type(instruction)](self, instruction)
            self.applied.changed = True

    def finish(self) -> Applied:
        """Publish one event about everything that has changed, if anything has."""
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

    def topology(self, name: str) -> Topology:
        if name not in self._topologies:
            self._topologies[name] = Topology.objects.select_for_update().get(name=name)
        return self._topologies[name]

    def tell(self, kind: EntryKind, text: str) -> None:
        """Add a sentence to the story besides those the machine tells."""
        self._tell(Tell(kind=kind, text=text))

    # ---- instructions ----------------------------------------------------------------------------

    def _tell(self, told: Tell) -> None:
        entry = IncidentEntry.objects.create(
            incident=self.incident, at=self.at, kind=told.kind, text=told.text, data=told.data
        )
        if told.kind == "stimulus":
            self.kinds.add(EventKind.INCIDENT_GROWN)
            self.incident.reason = self.incident.reason or told.text
        if told.kind in ("stimulus", "decision", "outcome"):
            self.reason = told.text[:500]
        if isinstance(told.fact, MethodChosen):
            # Not only with a plan: one that waits for an approval is made by this method already.
            self._method_follow(told.fact.method)
        self.add(entry_change(entry, incident=self.incident.number))

    def _involve(self, involve: Involve) -> None:
        self.incident.topologies.add(self.topology(involve.topology))

    def _keep_costs(self, keep: KeepCosts) -> None:
        fixed = {name: dict(costs) for name, costs in keep.costs.items()}
        self.incident.costs = {**self.incident.costs, **fixed}

    def _ask_for_node(self, asked: AskForNode) -> None:
        lost = Node.objects.filter(name=asked.lost_node).first()
        request, created = NodeRequest.objects.get_or_create(
            key=asked.key,
            defaults={
                "incident": self.incident,
                "node_name": self._node_name_fresh,
                "rack": lost.rack if lost else "",
                "slots": lost.slots if lost else 1,
                "capacity": lost.capacity if lost else 100.0,
                "standby": lost.standby if lost else False,
                "requested_at": self.at,
                "attempt": asked.attempt,
            },
        )
        if not created:
            return
        self.incident.wanted_nodes += 1
        node, _ = Node.objects.get_or_create(
            name=request.node_name,
            defaults={
                "rack": request.rack,
                "slots": request.slots,
                "capacity": request.capacity,
                "standby": request.standby,
                "provider": settings.RESURGE.provider,
            },
        )
        self.add(node_change(node))

    def _node_name_fresh(self) -> str:
        """For all that are asked for in one step the names that were ever used are read once."""
        if self._names is None:
            self._names = node_names_fresh()
        return next(self._names)

    def _give_up_request(self, given_up: GiveUpRequest) -> None:
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
        won = Topology.objects.filter(name=plan.topology, generation=plan.expected).update(
            generation=plan.generation
        )
        if not won:
            raise StalePlan(f"{plan.topology} has another generation than {plan.expected} by now; plan again")
        topology = self.topology(plan.topology)
        topology.generation = plan.generation
        for earlier in RecoveryPlan.objects.filter(topology=topology, state__in=PLAN_CURRENT):
            self._move(earlier, PlanState.SUPERSEDED)
        row = RecoveryPlan.objects.create(
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
        self._method_follow(row.method)
        # What moves goes on; nothing is put back to a checkpoint.
        moves = plan.kind == "move"
        if not moves:
            self.incident.checkpoints = {**self.incident.checkpoints, plan.topology: plan.checkpoint}
            self.add(topology_status_set(topology=topology, status=TopologyStatus.RECOVERING))
        self.add(
            *partitions_assign(
                topology=topology,
                assignment=plan.assignment,
                states={} if moves else dict.fromkeys(plan.restore, PartitionState.RESTORING),
                whole=True,
            ),
            topology_change(topology, only=("generation",)),
            plan_change(row, topology=topology.name, incident=self.incident.number),
        )
        self.applied.publish.append(plan.topology)
        self.standbys_follow(plan.assignment.values())

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
        row = RecoveryPlan.objects.filter(topology__name=mark.topology, generation=mark.generation).first()
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
        if not plan_move(row, to, at=self.at):
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
        self.add(plan_change(row, topology=row.topology.name, incident=incident))

    def _mark_partitions(self, mark: MarkPartitions) -> None:
        topology = self.topology(mark.topology)
        if mark.state == "failed":
            self.add(*partitions_failed(topology=topology, partitions=mark.partitions or ()))
            return
        if mark.state == "restoring":
            return  # the plan that restores them has set it
        labels = mark.partitions
        if labels is None:
            labels = frozenset(row.label for row in topology.partitions.all())
        states = dict.fromkeys(labels, PartitionState(mark.state))
        self.add(*partitions_assign(topology=topology, assignment={}, states=states))

    def _mark_parked(self, mark: MarkParked) -> None:
        self.add(*queries_parked(topology=self.topology(mark.topology), queries=mark.queries))

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
