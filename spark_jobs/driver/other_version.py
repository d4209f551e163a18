"""Another version of a topology, which computes otherwise, goes on from a checkpoint of the deployment.

What is in the outputs stays as it is: nothing was committed after that checkpoint. Its older ones are of no
use to this version. Every step may be repeated; the epoch log comes last.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import msgspec
import structlog

from domain.messages import DeployedSpec, LatestCheckpoint, Plan
from domain.topology import Topology, TopologySpec
from domain.topology.copies import operator_of
from spark_jobs.driver.epoch_log import EpochLog, EpochLogError
from spark_jobs.driver.from_savepoint import without_state
from spark_jobs.driver.topology_channel import TopologyChannel
from spark_jobs.sinks.base import Sink
from spark_jobs.sinks.committed import CommittedError, committed_read
from spark_jobs.state.checkpoint_storage import CheckpointStorage, Deployment
from spark_jobs.state.sealed import DamagedError

logger = structlog.get_logger()
ANEW = "Or undeploy the topology and deploy it again to start from its first tuple."


def go_over(
    topology: Topology,
    spec: DeployedSpec,
    *,
    log: EpochLog,
    coordination: TopologyChannel,
    checkpoints: str,
    outputs: Path,
    sink: Sink,
) -> None:
    """Put the log back to the checkpoint that the plan names, and complete that by what the other version did
    not have. outputs: the directory of the topology's. Raises `EpochLogError`, and closes the log, where rows
    that are final would change."""
    plan = coordination.plan
    try:
        if plan is None or plan.generation <= log.generation:
            raise EpochLogError(
                f"{log.path} is of version {log.computation}, and version {spec.version} computes otherwise, "
                f"but no plan says from which checkpoint it goes on. {ANEW}"
            )
        final = max(log.committed, _seen(outputs, plan, log))
        newest = _required(plan, spec, log=log, final=final, newest=coordination.latest)
        with closing(CheckpointStorage(checkpoints)) as storage:
            lacking = [*plan.stateless, *_without_part(topology, plan, storage)]
            for partition in lacking:
                storage.store(without_state(topology.name, plan, partition), [])
        sink.forget(deployed=plan.deployment, after=plan.checkpoint)
        at = dict(zip(newest.kept, newest.kept_at, strict=False))
        alone = msgspec.structs.replace(
            newest,
            checkpoint=plan.checkpoint,
            kept=[plan.checkpoint],
            kept_at=[at[plan.checkpoint]] if plan.checkpoint in at else [],
            highest=max(newest.highest, newest.checkpoint),
        )
        if not coordination.complete(alone):
            raise ConnectionError("ZooKeeper did not take the checkpoint that another version goes on from")
    except BaseException:
        log.close()
        raise
    logger.info(
        "another version goes on",
        version=spec.version,
        checkpoint=plan.checkpoint,
        without_state=len(plan.stateless),
        divided=plan.divided,
    )
    log.go_over(spec.computation, plan.checkpoint, plan.divided)


def _without_part(topology: Topology, plan: Plan, storage: CheckpointStorage) -> list[str]:
    """The partitions of operators whose state is divided anew that the checkpoint has not. What their empty
    states mean, its record says, which is required."""
    if not plan.divided:
        return []
    try:
        record = storage.record(Deployment(topology.name, plan.deployment), plan.checkpoint)
    except DamagedError as error:
        raise EpochLogError(
            f"the state of {', '.join(plan.divided)} is to be divided anew, and {error}. Deploy the version "
            f"before, and undeploy it when it is well; then it leaves another checkpoint. {ANEW}"
        ) from error
    known = set(Topology(msgspec.convert(record.spec, TopologySpec)).partitions)
    return [one for one in topology.partitions if operator_of(one) in plan.divided and one not in known]


def _seen(outputs: Path, plan: Plan, log: EpochLog) -> int:
    """The newest epoch that readers were shown. After a loss of power the log may know of fewer, since not
    each of its lines is forced to disk."""
    try:
        committed = committed_read(outputs)
    except CommittedError as error:
        raise EpochLogError(
            f"up to which epoch outputs are final is not known: {error} {_back(log)} {ANEW}"
        ) from error
    return committed.epoch if committed is not None and committed.deployed == plan.deployment else 0


def _back(log: EpochLog) -> str:
    return (
        f"Undeploy the topology, deploy its version {log.computation} again to go on, and undeploy it "
        "when it is well; then it leaves a checkpoint of all that is final."
    )


def _required(
    plan: Plan, spec: DeployedSpec, *, log: EpochLog, final: int, newest: LatestCheckpoint | None
) -> LatestCheckpoint:
    """What ZooKeeper says of checkpoints, if that of the plan is kept and no epoch after it is final."""
    if final > plan.checkpoint:
        raise EpochLogError(
            f"outputs are final up to epoch {final}, and version {spec.version}, which computes "
            f"otherwise, is to go on from checkpoint {plan.checkpoint}: rows in between would change. "
            f"{_back(log)} {ANEW}"
        )
    kept = (newest.kept or [newest.checkpoint]) if newest is not None else []
    if newest is None or plan.checkpoint not in kept or not log.holds(plan.checkpoint):
        known = ", ".join(map(str, kept)) or "none"
        raise EpochLogError(
            f"checkpoint {plan.checkpoint}, which version {spec.version} is to go on from, is not kept; "
            f"those that are: {known}. {ANEW}"
        )
    return newest
