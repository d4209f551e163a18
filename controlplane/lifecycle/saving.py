"""Making savepoints: copying a checkpoint, taking one from a file, writing one to a file, and removing
those that were deleted. In a process of its own, or in the worker that removes; the web process does not load
it."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import closing
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Final, Unpack

import structlog
from django.conf import settings
from django.utils import timezone

from controlplane.checkpoints.choices import SavepointState
from controlplane.checkpoints.models import Checkpoint, Savepoint
from controlplane.checkpoints.selectors import savepoint_get
from controlplane.errors import Conflict, Missing
from controlplane.events.audit import By, audit_record
from controlplane.events.choices import OPERATION_ENDED
from controlplane.events.models import Operation
from controlplane.events.operations import operation_progress, operation_succeed, reason_require
from controlplane.events.services import writing
from controlplane.incidents.loading import deployment_at
from controlplane.lifecycle.savepoints import savepoint_failed, savepoint_name_require, savepoint_shown
from controlplane.topologies.selectors import topology_get
from host.scratch import empty_directory
from spark_jobs.state.archive import Progress, SavepointArchive, archive_write
from spark_jobs.state.checkpoint_storage import CheckpointStorage, Deployment
from spark_jobs.state.records import CheckpointRecord
from spark_jobs.state.savepoints import SavepointStorage
from spark_jobs.state.sealed import DamagedError
from spark_jobs.state.state_storage import StorageError

log = structlog.get_logger(__name__)

TRIES: Final = 5
"""A checkpoint may leave the storage while it is copied: then the newest one is taken, so many times."""
PAUSE: Final = 1.0
"""Seconds between two tries."""


def operation_save(operation_id: str) -> None:
    """Make the savepoint that an operation asks for, unless it has ended."""
    operation = Operation.objects.get(pk=operation_id)
    if operation.state in OPERATION_ENDED:
        return
    os.nice(10)  # queries go first
    try:
        savepoint = savepoint_get(operation.parameters["savepoint"])
        progress = operation_progress(operation)
        record, size = _copied(savepoint, operation.target, operation.parameters["checkpoint"], progress)
    except (StorageError, DamagedError, Missing, OSError) as error:
        savepoint_failed(operation=operation, error=str(error))
        return
    savepoint_made(operation=operation, savepoint=savepoint, record=record, size=size)


@writing
def savepoint_made(
    *, operation: Operation, savepoint: Savepoint, record: CheckpointRecord, size: int
) -> None:
    """Note that all of a savepoint is stored. It is complete when its operation has succeeded, not before:
    an operation that is open is carried out again, from its beginning."""
    told = {"progress": None, "checkpoint": record.checkpoint, "size_bytes": size}
    operation_succeed(operation=operation, result=told)
    # The launcher may have given it up meanwhile.
    making = (
        Savepoint.objects.select_for_update().filter(pk=savepoint.pk, state=SavepointState.MAKING).first()
    )
    if making is not None:
        _complete(making, record, size)


def _copied(
    savepoint: Savepoint, topology: str, chosen: int | None, progress: Progress
) -> tuple[CheckpointRecord, int]:
    """Copy the checkpoint into the savepoint's archive; returns its record, and the bytes of the archive.
    Raises `DamagedError`, `StorageError`, `Missing` and `OSError`."""
    environment = settings.RESURGE
    for left in reversed(range(TRIES)):
        checkpoint = _checkpoint(topology, chosen)
        try:
            with (
                empty_directory(environment.run / "savepoint") as scratch,
                closing(CheckpointStorage(environment.checkpoints)) as storage,
                closing(SavepointStorage(environment.checkpoints, force=environment.force)) as savepoints,
            ):
                path = scratch / "savepoint.tar"
                of = Deployment(topology, deployment_at(checkpoint.topology_id, checkpoint.generation))
                record = archive_write(storage, of, checkpoint.epoch, path, progress=progress)
                return record, _keep(savepoint, savepoints, path)
        except DamagedError:
            if not left:
                raise
            time.sleep(PAUSE)  # it has gone, or its record is not there yet
    raise AssertionError("unreachable")


def _checkpoint(topology: str, chosen: int | None) -> Checkpoint:
    """Raises `Missing`."""
    rows = Checkpoint.objects.filter(topology__name=topology, stored=True).order_by("-epoch")
    found = (rows if chosen is None else rows.filter(epoch=chosen)).first()
    if found is not None:
        return found
    if chosen is None:
        raise Missing(f"no checkpoint of topology {topology!r} is in storage")
    raise Missing(f"checkpoint {chosen} of topology {topology!r} is not in storage")


def _keep(savepoint: Savepoint, savepoints: SavepointStorage, path: Path) -> int:
    """Store an archive under a key of its own: a try before this one may have stored another."""
    if savepoint.key:
        savepoints.delete(savepoint.key)
    savepoint.key = token_hex(16)
    savepoint.save(update_fields=["key"])
    return savepoints.store(savepoint.key, path)


def _complete(savepoint: Savepoint, record: CheckpointRecord, size: int) -> None:
    savepoint.version, savepoint.epoch, savepoint.spec = record.version, record.checkpoint, record.spec
    savepoint.renewed = record.renewed
    savepoint.size_bytes, savepoint.state, savepoint.cause = size, SavepointState.COMPLETE, ""
    savepoint.ended_at = timezone.now()
    savepoint.save()


def savepoint_import(
    *, path: Path, name: str, progress: Progress | None = None, **by: Unpack[By]
) -> Savepoint:
    """Take a savepoint from a file that was exported, here or elsewhere, once all of it has been read. Raises
    `DamagedError`, `StorageError`, `Invalid` or `Conflict`."""
    reason_require(by["reason"])
    environment = settings.RESURGE
    environment.run.mkdir(parents=True, exist_ok=True)
    with (
        TemporaryDirectory(prefix="savepoint-import-", dir=environment.run) as scratch,
        closing(SavepointStorage(environment.checkpoints, force=environment.force)) as savepoints,
    ):
        # What is kept is what was read, whatever becomes of the file.
        copy = Path(scratch) / path.name
        shutil.copyfile(path, copy)
        with SavepointArchive(copy) as archive:
            archive.check(progress)
            record = archive.record
        key = token_hex(16)
        size = savepoints.store(key, copy)
        try:
            return _imported(name, key, record, size, by)
        except BaseException:
            savepoints.delete(key)
            raise


@writing
def _imported(name: str, key: str, record: CheckpointRecord, size: int, by: By) -> Savepoint:
    savepoint_name_require(name)
    savepoint = Savepoint(
        name=name,
        key=key,
        topology=record.topology,
        imported=True,
        requested_by=by["actor"],
        reason=by["reason"],
    )
    _complete(savepoint, record, size)
    audit_record(action="savepoint.import", target=name, after=savepoint_shown(savepoint), **by)
    return savepoint


def savepoints_clear() -> None:
    """Delete the archives of those that were given up. Raises `StorageError`."""
    rows = list(Savepoint.objects.filter(state=SavepointState.DELETED))
    if not rows:
        return
    with closing(SavepointStorage(settings.RESURGE.checkpoints)) as savepoints:
        for savepoint in rows:
            if savepoint.key:
                savepoints.delete(savepoint.key)
            savepoint.delete()
            log.info("savepoint deleted", topology=savepoint.topology, key=savepoint.key)


def savepoint_export(name: str, target: Path) -> Savepoint:
    """Write the archive of a savepoint to a file. Raises `Missing`, `Conflict`, `DamagedError`,
    `StorageError` and `OSError`."""
    savepoint = savepoint_get(name)
    if savepoint.state != SavepointState.COMPLETE:
        state = SavepointState(savepoint.state).label.lower()
        raise Conflict(f"savepoint {name!r} is {state}: there is nothing to export")
    with closing(SavepointStorage(settings.RESURGE.checkpoints)) as savepoints:
        savepoints.fetch(savepoint.key, target)
    return savepoint


def checkpoint_export(
    topology: str, checkpoint: int | None, target: Path, progress: Progress | None = None
) -> CheckpointRecord:
    """Write a checkpoint that is in storage to a file, the newest one if none is named. Raises as
    `savepoint_export` does."""
    found = _checkpoint(topology_get(topology, spec=False).name, checkpoint)
    with closing(CheckpointStorage(settings.RESURGE.checkpoints)) as storage:
        of = Deployment(topology, deployment_at(found.topology_id, found.generation))
        return archive_write(storage, of, found.epoch, target, progress=progress)
