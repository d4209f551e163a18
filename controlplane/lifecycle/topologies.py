"""Changing what a topology does: deploy, undeploy, checkpoint, recover, pause and resume.

Each service records an `Operation` to follow. The recovery worker carries it
out after the commit, and what the driver then reports ends it (see `telemetry`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Unpack

from django.utils import timezone

from controlplane.checkpoints.models import Checkpoint
from controlplane.checkpoints.permitted import checkpoint_refusals
from controlplane.errors import Conflict, Missing
from controlplane.events.choices import EventKind, OperationKind
from controlplane.events.models import Operation
from controlplane.events.operations import Asked, Permission, operation_request, operations_open
from controlplane.events.representation import Change, removal
from controlplane.events.services import event_publish, writing
from controlplane.events.tasks import TOPOLOGY_PUBLISH, task_send_on_commit
from controlplane.incidents.restoring import deployment_named, restorable
from controlplane.lifecycle.continuing import continuation_begin, savepoint_begin
from controlplane.lifecycle.deployment import deploy_plan_create
from controlplane.lifecycle.origins import origins_begin
from controlplane.topologies.choices import Desired, Start, TopologyStatus
from controlplane.topologies.figures import SETTLED, figures_settle
from controlplane.topologies.models import Problem, Topology, rack_exposure_unknown
from controlplane.topologies.outcomes import deployments_fail, savepoints_await
from controlplane.topologies.permitted import permit
from controlplane.topologies.representation import topology_change
from controlplane.topologies.rows import Rows
from controlplane.topologies.selectors import topology_get
from controlplane.topologies.validation import inputs_require, spec_validate
from domain.topology import Topology as Graph


@writing
def topology_deploy(
    *,
    name: str,
    start: Start = Start.BEGINNING,
    savepoint: str = "",
    **asked: Unpack[Asked],
) -> Operation:
    """Start the newest version, from nothing, from the newest checkpoint or from the `savepoint` of that
    name: fix the origin of event time, place, make a plan.

    The operation succeeds when the driver reports the plan running.
    Raises `Missing`, `Invalid` (the specification no longer validates here, or does not fit the checkpoint)
    or `Conflict`.
    """
    topology = topology_get(name, lock=True)

    def deploy() -> Permission:
        permit(topology, "deploy")
        before = _standing(topology)
        now = timezone.now()
        if start == Start.CHECKPOINT:
            graph, removed = continuation_begin(topology)
        elif start == Start.SAVEPOINT:
            graph, removed = savepoint_begin(topology, savepoint), _checkpoints_clear(topology)
        else:
            graph, removed = _begin_anew(topology, now), _checkpoints_clear(topology)
        removed += _problems_clear(topology)
        topology.spec = topology.deployed_spec = graph.to_data()
        topology.guarantee = graph.spec.guarantee
        inputs_require(topology.spec)
        topology.status = TopologyStatus.DEPLOYING
        topology.desired = Desired.RUNNING
        topology.error = ""
        topology.input_rate = topology.lag = 0.0
        topology.load = topology.usual_load = topology.overloaded_since = None
        topology.load_falls = False
        topology.slow_since = {}
        topology.rack_exposure = rack_exposure_unknown()
        topology.deployed_at = now
        topology.save()
        plan, changes = deploy_plan_create(topology=topology, reason=asked["reason"])
        return Permission(
            before=before,
            after=_standing(topology),
            parameters={
                "version": topology.version,
                "generation": plan.generation if plan else None,
                "checkpoint": topology.continues["checkpoint"] if topology.continues else None,
                "savepoint": savepoint if start == Start.SAVEPOINT else None,
            },
            announce=lambda: event_publish(
                kind=EventKind.TOPOLOGY_DEPLOYED,
                topology=name,
                changes=[topology_change(topology, graph=True), *removed, *changes],
                actor=asked["actor"],
                reason=asked["reason"],
            ),
        )

    return operation_request(
        kind=OperationKind.TOPOLOGY_DEPLOY,
        target=name,
        permit=deploy,
        **asked,
    )


@writing
def topology_undeploy(*, name: str, **asked: Unpack[Asked]) -> Operation:
    """Stop at the next epoch boundary and stay stopped. Raises `Missing` or `Conflict`."""
    topology = topology_get(name, lock=True)

    def undeploy() -> Permission:
        permit(topology, "undeploy")
        before = _standing(topology)
        ended = topology.status == TopologyStatus.COMPLETED
        deployments_fail(topology, "the topology was undeployed before it ran")
        topology.desired = Desired.STOPPED
        topology.status = TopologyStatus.STOPPED if ended else TopologyStatus.STOPPING
        settled: list[Change] = []
        if ended:
            rows = Rows.load(topology)
            figures_settle(topology, rows)
            settled = rows.changes()
            task_send_on_commit(TOPOLOGY_PUBLISH, name)
        topology.save(update_fields=["desired", "status", "updated_at", *SETTLED])
        return Permission(
            before=before,
            after=_standing(topology),
            done=ended,  # a completed run has no driver left to wait for
            announce=lambda: event_publish(
                kind=EventKind.TOPOLOGY_UNDEPLOYED,
                topology=name,
                changes=[topology_change(topology), *settled],
                actor=asked["actor"],
                reason=asked["reason"],
            ),
        )

    return operation_request(
        kind=OperationKind.TOPOLOGY_UNDEPLOY,
        target=name,
        permit=undeploy,
        **asked,
    )


@writing
def topology_action(
    *,
    kind: OperationKind,
    name: str,
    **asked: Unpack[Asked],
) -> Operation:
    """Ask for a checkpoint, a recovery, a move of partitions, a verification, a pause or a resume. Raises
    `Missing` or `Conflict`."""
    topology = topology_get(name, lock=True)

    def act() -> Permission:
        permit(topology, kind.partition(".")[2])
        if kind == OperationKind.TOPOLOGY_VERIFY and operations_open(kind=kind, target=name):
            raise Conflict(f"topology {name!r} is being verified: wait for the outcome")
        return Permission(before=_standing(topology))

    return operation_request(
        kind=kind,
        target=name,
        permit=act,
        **asked,
    )


@writing
def topology_restore(*, name: str, checkpoint: int, **asked: Unpack[Asked]) -> Operation:
    """Put all of a running topology back to a checkpoint that is still in storage, and replay from there.

    Raises `Missing` (no such checkpoint) or `Conflict` (not running, being recovered, or the checkpoint is
    not in storage).
    """
    topology = topology_get(name, lock=True)

    def restore() -> Permission:
        permit(topology, "restore")
        row = Checkpoint.objects.filter(topology=topology, epoch=checkpoint).first()
        stored = Checkpoint.objects.filter(topology=topology, stored=True).order_by("epoch")
        epochs = list(stored.values_list("epoch", flat=True))
        if row is None:
            raise Missing(f"topology {name!r} has no checkpoint {checkpoint}")
        if refusals := checkpoint_refusals(row):
            choice = ", ".join(map(str, epochs)) or "none yet"
            raise Conflict(f"{refusals['restore']}; those that are: {choice}")
        restorable(name)
        parameters = {"checkpoint": checkpoint, "deployed_at": deployment_named(topology)}
        return Permission(before=_standing(topology), parameters=parameters)

    return operation_request(
        kind=OperationKind.TOPOLOGY_RESTORE,
        target=name,
        permit=restore,
        **asked,
    )


def _standing(topology: Topology) -> dict[str, Any]:
    """What the audit trail keeps of a topology before and after an action."""
    return {
        "status": str(topology.status),
        "desired": str(topology.desired),
        "generation": topology.generation,
        "committed_epoch": topology.committed_epoch,
        "checkpoint_epoch": topology.checkpoint_epoch,
    }


def _begin_anew(topology: Topology, now: datetime) -> Graph:
    """Have a topology start with its first tuple; the newest version as it is to run."""
    version = topology.versions.order_by("-number").first()
    spec = version.spec if version is not None else topology.spec
    graph = spec_validate(origins_begin(spec, now))
    topology.head_epoch = topology.committed_epoch = topology.checkpoint_epoch = 0
    topology.computation, topology.renewed, topology.continues = topology.version, [], None
    return graph


def _checkpoints_clear(topology: Topology) -> list[Change]:
    """Drop the checkpoints of an earlier deployment: a new one starts from nothing. Raises `Conflict` while a
    savepoint is made of one."""
    savepoints_await(topology)
    epochs = topology.checkpoints.values_list("epoch", flat=True)
    changes = [removal("checkpoint", f"{topology.name}/{epoch}") for epoch in epochs]
    Checkpoint.objects.filter(topology=topology).delete()
    return changes


def _problems_clear(topology: Topology) -> list[Change]:
    """Drop the problems of an earlier run."""
    changes = [removal("problem", pk) for pk in topology.problems.values_list("pk", flat=True)]
    Problem.objects.filter(topology=topology).delete()
    return changes
