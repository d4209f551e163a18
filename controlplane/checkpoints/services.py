"""Applying what drivers report about checkpoints."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog
from django.db.models import Q

from controlplane.checkpoints.choices import CheckpointState
from controlplane.checkpoints.models import Checkpoint
from controlplane.checkpoints.representation import checkpoint_change
from controlplane.events.choices import EventKind, OperationKind
from controlplane.events.operations import operation_fail, operation_succeed, operations_open
from controlplane.events.representation import Change
from controlplane.events.services import event_publish, writing
from controlplane.topologies.models import Topology
from controlplane.topologies.reports import plan_known
from controlplane.topologies.representation import topology_change
from domain.messages import CheckpointAck, CheckpointReport, LatestCheckpoint

log = structlog.get_logger(__name__)

DETAILED = 50
"""Newest checkpoints of a topology whose acknowledgements are kept."""

UNTOLD = "its end was not reported, and storage does not have it"
"""Cause of one that had begun before a complete one: its driver ended, or reports were lost."""

_STATES = {
    "started": CheckpointState.STARTED,
    "acknowledged": CheckpointState.STARTED,
    "completed": CheckpointState.COMPLETED,
    "failed": CheckpointState.FAILED,
}
_EVENTS = {
    CheckpointState.STARTED: EventKind.CHECKPOINT_STARTED,
    CheckpointState.COMPLETED: EventKind.CHECKPOINT_COMPLETED,
    CheckpointState.FAILED: EventKind.CHECKPOINT_FAILED,
}


@writing
def checkpoint_apply(*, report: CheckpointReport) -> None:
    """Store the state of a global checkpoint; one event when it changed.

    Reports of an earlier generation, and late ones about a checkpoint that has
    already ended in this generation, change nothing.
    """
    topology = Topology.objects.select_for_update().filter(name=report.topology).first()
    if topology is None:
        log.warning("checkpoint of an unknown topology", topology=report.topology)
        return
    if report.generation < topology.applied_generation:
        return
    plan_known(topology, report.generation)
    checkpoint = Checkpoint.objects.filter(topology=topology, epoch=report.checkpoint).first()
    state = _STATES[report.state]
    if checkpoint is None:
        checkpoint = Checkpoint(topology=topology, epoch=report.checkpoint)
    elif _is_late(checkpoint, report, state):
        return
    waiting = [
        operation
        for operation in operations_open(kind=OperationKind.TOPOLOGY_CHECKPOINT, target=topology.name)
        if 0 < operation.result.get("request", 0) <= report.request
    ]
    before = checkpoint_change(checkpoint, topology=topology.name) if checkpoint.pk else None
    _take_in(checkpoint, report, state)
    if waiting and not checkpoint.requested_by:
        checkpoint.requested_by = waiting[0].requested_by
    after = checkpoint_change(checkpoint, topology=topology.name)
    if after != before:
        checkpoint.save()
        if checkpoint.acknowledgements:
            _details_trim(topology)
        changes: list[Change] = [after]
        if state is CheckpointState.COMPLETED:
            changes += _stored_follow(topology, checkpoint, kept=report.kept)
            changes += _newest_follow(topology, checkpoint)
        event_publish(kind=_EVENTS[state], topology=topology.name, changes=changes, reason=report.cause)
    for operation in waiting:
        if state is CheckpointState.COMPLETED:
            operation_succeed(operation=operation, result={"checkpoint": report.checkpoint})
        elif state is CheckpointState.FAILED:
            operation_fail(operation=operation, error=report.cause or "the checkpoint failed")


def _take_in(checkpoint: Checkpoint, report: CheckpointReport, state: CheckpointState) -> None:
    """What the driver says of it now; the caller saves the row."""
    checkpoint.generation = report.generation
    checkpoint.state = state
    checkpoint.acknowledged = report.acknowledged
    checkpoint.total = report.total
    checkpoint.size_bytes = report.size_bytes
    checkpoint.started_at = _moment(report.started_at)
    checkpoint.ended_at = None if report.ended_at is None else _moment(report.ended_at)
    checkpoint.cause = report.cause
    checkpoint.acknowledgements = [_detail(ack, report.started_at) for ack in report.acknowledgements]
    checkpoint.stored = state is CheckpointState.COMPLETED


@writing
def checkpoint_catch_up(*, topology: str, newest: LatestCheckpoint, since: int) -> None:
    """Store that the newest checkpoint is complete, as ZooKeeper says, where the driver's report of that has
    not come: it may have been lost, or be on its way. Details of partitions come with the report only.
    since: generation with which the present run started; checkpoints of earlier ones are void."""
    row = Topology.objects.select_for_update().filter(name=topology).first()
    if row is None or newest.generation < since or not newest.checkpoint:
        return
    # Those of an earlier plan may have been undone: their numbers say nothing.
    known = Checkpoint.objects.filter(topology=row, generation__gte=newest.generation)
    found = known.filter(epoch=newest.checkpoint).first()
    if found is not None and found.state != CheckpointState.STARTED:
        return
    if known.filter(epoch__gt=newest.checkpoint, state=CheckpointState.COMPLETED).exists():
        return
    partitions = row.partitions.count()
    log.info("checkpoint known by ZooKeeper only", topology=topology, checkpoint=newest.checkpoint)
    checkpoint_apply(
        report=CheckpointReport(
            topology=topology,
            checkpoint=newest.checkpoint,
            generation=newest.generation,
            state="completed",
            acknowledged=partitions,
            total=partitions,
            size_bytes=newest.size_bytes,
            started_at=found.started_at.timestamp() if found else newest.completed_at,
            ended_at=newest.completed_at,
            kept=newest.kept or [newest.checkpoint],
        )
    )


def _stored_follow(topology: Topology, newest: Checkpoint, *, kept: Collection[int]) -> list[Change]:
    """Note that storage holds exactly these complete checkpoints, and that those that began before the newest
    have ended by then: a driver that dies tells nothing of one under way, and reports may be lost."""
    rows = Checkpoint.objects.filter(topology=topology).exclude(pk=newest.pk)
    gone = list(rows.filter(stored=True).exclude(epoch__in=kept))
    for row in gone:
        row.stored = False
        row.save(update_fields=["stored"])
    before = Q(epoch__lt=newest.epoch) | Q(generation__lt=newest.generation)
    ended = list(rows.filter(before, state=CheckpointState.STARTED))
    for checkpoint in ended:
        checkpoint.stored = checkpoint.epoch in kept
        checkpoint.state = CheckpointState.COMPLETED if checkpoint.stored else CheckpointState.FAILED
        checkpoint.cause = "" if checkpoint.stored else UNTOLD
        checkpoint.acknowledged = checkpoint.total if checkpoint.stored else checkpoint.acknowledged
        checkpoint.ended_at = newest.ended_at
        checkpoint.save(update_fields=["stored", "state", "cause", "acknowledged", "ended_at"])
    return [checkpoint_change(row, topology=topology.name) for row in (*gone, *ended)]


def _newest_follow(topology: Topology, complete: Checkpoint) -> list[Change]:
    """Note on the topology which of its complete checkpoints is the newest."""
    if complete.epoch <= topology.checkpoint_epoch:
        return []
    topology.checkpoint_epoch = complete.epoch
    topology.save(update_fields=["checkpoint_epoch", "updated_at"])
    return [topology_change(topology, only=("checkpoint_epoch",))]


def checkpoint_restored(
    *, topology: Topology, epoch: int, at: datetime, undone_by: int | None = None
) -> list[Change]:
    """Note that cp(P_epoch) was loaded. undone_by: generation of a plan that rolled the whole topology back
    to it, so that later checkpoints belong to an undone history. Returns the changes for the caller's
    event."""
    changed: list[Checkpoint] = []
    later = Checkpoint.objects.filter(topology=topology, epoch__gt=epoch, state=CheckpointState.COMPLETED)
    for checkpoint in later.filter(generation__lt=undone_by) if undone_by is not None else ():
        checkpoint.state, checkpoint.stored = CheckpointState.UNDONE, False
        checkpoint.save(update_fields=["state", "stored"])
        changed.append(checkpoint)
    # Checkpoint 0, the empty state, has no row.
    for checkpoint in Checkpoint.objects.filter(topology=topology, epoch=epoch):
        checkpoint.restored_at = at
        checkpoint.save(update_fields=["restored_at"])
        changed.append(checkpoint)
    return [checkpoint_change(checkpoint, topology=topology.name) for checkpoint in changed]


def _detail(ack: CheckpointAck, started_at: float) -> dict[str, Any]:
    """The stored part of an acknowledgement: the checkpoint itself holds the rest. started_at: of the
    checkpoint, by the clock of the driver's host."""
    kept: dict[str, Any] = msgspec.to_builtins(ack)
    del kept["checkpoint"], kept["generation"], kept["attempt"], kept["taken_at"]
    kept["alignment"] = round(max(0.0, ack.taken_at - started_at), 4) if ack.taken_at else None
    return kept


def _details_trim(topology: Topology) -> None:
    """A new checkpoint has acknowledgements, so drop those of the oldest that has them."""
    newest = Checkpoint.objects.filter(topology=topology).order_by("-epoch")
    surplus = list(newest.values_list("pk", flat=True)[DETAILED : DETAILED + 1])
    Checkpoint.objects.filter(pk__in=surplus).update(acknowledgements=[])


def _is_late(checkpoint: Checkpoint, report: CheckpointReport, state: CheckpointState) -> bool:
    if report.generation != checkpoint.generation:
        return report.generation < checkpoint.generation
    ended = checkpoint.state != CheckpointState.STARTED
    if ended:
        return state is CheckpointState.STARTED
    return state is CheckpointState.STARTED and report.acknowledged < checkpoint.acknowledged


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=UTC)
