"""A deployment that begins with a savepoint: its states become the first checkpoint, and the input goes on
where it was read up to.

The clock of the input goes on as well: what a source gives by time is due from now on, however old the
savepoint is. Every step may be repeated; the epoch log is the last but one, and ZooKeeper is told at each
start until a plan is adopted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec
import structlog

from domain.messages import DeployedSpec, LatestCheckpoint, Plan
from domain.topology import Topology, directory_partition
from domain.topology.copies import operator_of
from host.scratch import empty_directory
from spark_jobs.driver.epoch_log import EpochLog, EpochLogError
from spark_jobs.driver.topology_channel import TopologyChannel
from spark_jobs.state.archive import SavepointArchive, archive_store
from spark_jobs.state.checkpoint_storage import CheckpointStorage, Deployment, StoredManifest
from spark_jobs.state.records import CheckpointRecord
from spark_jobs.state.savepoints import SavepointStorage
from spark_jobs.state.sealed import DamagedError
from spark_jobs.state.store import Manifest

logger = structlog.get_logger()
SCRATCH: Final = "savepoint"
HINT = "Undeploy the topology, and deploy it with another savepoint, or from its first tuple."


def begin(
    topology: Topology,
    spec: DeployedSpec,
    *,
    log: EpochLog,
    coordination: TopologyChannel,
    checkpoints: str,
    scratch: Path,
    clock: Callable[[], float],
) -> None:
    """Have an empty log and storage begin with the savepoint that the specification names. scratch: a
    directory for the archive and its files. Raises `EpochLogError` where that is not possible."""
    plan = coordination.plan
    if plan is None:
        raise EpochLogError(
            f"topology {topology.name!r} is to begin with a savepoint, and has no plan. {HINT}"
        )
    try:
        if log.plans:
            size = _stored_bytes(topology, plan, checkpoints)
        else:
            size = _unpack(
                topology, spec, plan, log=log, checkpoints=checkpoints, scratch=scratch, clock=clock
            )
    except DamagedError as error:
        raise EpochLogError(f"the savepoint cannot be used: {error}. {HINT}") from error
    now = clock()
    newest = LatestCheckpoint(
        checkpoint=log.position.checkpoint,
        generation=plan.generation,
        completed_at=now,
        size_bytes=size,
        kept=[log.position.checkpoint],
        kept_at=[now],
        highest=log.position.checkpoint,
    )
    if not coordination.complete(newest):
        raise ConnectionError("ZooKeeper did not take the checkpoint that a savepoint became")


def _stored_bytes(topology: Topology, plan: Plan, checkpoints: str) -> int:
    """Bytes of the states that a driver before this one has unpacked."""
    with closing(CheckpointStorage(checkpoints)) as storage:
        deployment = Deployment(topology.name, plan.deployment)
        found = [
            storage.find(deployment, plan.checkpoint, directory_partition(directory))
            for directory in storage.partitions(deployment, plan.checkpoint)
        ]
    return sum(one.manifest.bytes for one in found)


def _unpack(
    topology: Topology,
    spec: DeployedSpec,
    plan: Plan,
    *,
    log: EpochLog,
    checkpoints: str,
    scratch: Path,
    clock: Callable[[], float],
) -> int:
    """Returns the bytes of the states. Raises `DamagedError`, `StorageError` and `EpochLogError`."""
    with empty_directory(scratch / SCRATCH) as directory:
        path = directory / "savepoint.tar"
        with closing(SavepointStorage(checkpoints)) as savepoints:
            savepoints.fetch(spec.savepoint, path)
        with SavepointArchive(path) as archive, closing(CheckpointStorage(checkpoints)) as storage:
            record = archive.record
            _require_fit(plan, record)
            # An archive is read as a whole: what it does not have was not there. What it has in other
            # partitions is divided when these are put back to it.
            here = topology.by_name
            with_state = [one for one in archive.partitions if operator_of(one) in here]
            without = [one for one in topology.partitions if one not in archive.manifests]
            storage.store_record(_as_ours(record, topology.name, plan))
            size = archive_store(
                archive,
                storage,
                with_state,
                topology=topology.name,
                deployed=plan.deployment,
                scratch=directory,
            )
            for partition in without:
                storage.store(without_state(topology.name, plan, partition), [])
    began = clock() - record.checkpoint * topology.spec.epoch_interval
    log.begin_after(
        record.plan,
        started_at=began,
        origin_us=record.origin_us,
        computation=spec.computation,
        divided=plan.divided,
    )
    logger.info(
        "begun with a savepoint",
        of=record.topology,
        checkpoint=record.checkpoint,
        bytes=size,
        without_state=len(without),
        divided=plan.divided,
    )
    return size


def _as_ours(record: CheckpointRecord, topology: str, plan: Plan) -> CheckpointRecord:
    """The record of the checkpoint that a savepoint becomes."""
    return msgspec.structs.replace(
        record, topology=topology, deployed=plan.deployment, spec={**record.spec, "name": topology}
    )


def _require_fit(plan: Plan, record: CheckpointRecord) -> None:
    if record.checkpoint != plan.checkpoint:
        raise EpochLogError(
            f"the savepoint is of checkpoint {record.checkpoint}, and plan {plan.generation} goes on from "
            f"{plan.checkpoint}. {HINT}"
        )


def without_state(topology: str, plan: Plan, partition: str) -> StoredManifest:
    """The state of a partition that a checkpoint knows nothing of."""
    manifest = Manifest(epoch=plan.checkpoint, generation=plan.generation)
    return StoredManifest(
        topology=topology,
        deployed=plan.deployment,
        partition=partition,
        checkpoint=plan.checkpoint,
        generation=plan.generation,
        attempt=0,
        manifest=msgspec.Raw(msgspec.json.encode(manifest)),
    )
