"""Putting a driver together: everything one epoch loop needs, and how it is closed again."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from domain.execution.adoption import deployed_since
from domain.execution.checkpoints import TOLERATED, UPLOAD_TIMEOUT, Checkpoints, complete_checkpoints
from domain.messages import LatestCheckpoint, Telemetry
from domain.topology import Topology
from host.environment import Environment
from spark_jobs.driver import from_savepoint
from spark_jobs.driver.application_report import ApplicationReport
from spark_jobs.driver.cluster import Cluster
from spark_jobs.driver.epoch_log import EpochLog, EpochLogError, epoch_log_directory
from spark_jobs.driver.epoch_planner import EpochPlanner, monotonic_clock
from spark_jobs.driver.executor_watch import ExecutorReport, ExecutorWatch
from spark_jobs.driver.fresh_start import clear_earlier_deployment, deployed_origin
from spark_jobs.driver.loop import EpochLoop
from spark_jobs.driver.other_version import go_over
from spark_jobs.driver.retention import EVERY, Retention
from spark_jobs.driver.topology_channel import TopologyChannel
from spark_jobs.sinks.registry import sink_create


@contextmanager
def epoch_loop(
    *,
    topology: Topology,
    settings: Environment,
    coordination: TopologyChannel,
    send: Callable[[Telemetry], None],
    stop: threading.Event,
    executor_memory: str,
) -> Iterator[EpochLoop]:
    """An epoch loop with a Spark application of its own, closed at the end in the reverse order.

    Raises `SourceError` for an input that cannot be used and `EpochLogError` for a damaged log.
    """
    clock = monotonic_clock()
    modules = list(settings.operator_modules)
    with ExitStack() as closing:
        log = open_log(settings, topology, coordination, clock)
        closing.callback(log.close)
        planner = EpochPlanner(topology=topology, log=log, home=settings.home, modules=modules, clock=clock)
        planner.prepare(send)
        local = settings.home / "spark" / topology.name
        local.mkdir(parents=True, exist_ok=True)
        retention = Retention(
            url=settings.checkpoints,
            topology=topology.name,
            partitions=topology.partitions,
            forget=coordination.forget_checkpoints,
            every=EVERY,
            force=settings.force,
        )
        closing.callback(retention.close)
        sink = sink_create(topology.spec, settings.outputs, force=settings.force)
        closing.callback(sink.close)
        cluster = Cluster(
            topology=topology.name,
            master=settings.spark_master,
            secret=settings.spark_secret,
            host=settings.driver_host,
            executor_memory=executor_memory,
            local_dir=str(local),
        )
        closing.callback(cluster.stop)
        watch = ExecutorWatch(
            ExecutorReport(topology.name, coordination.connection),
            ApplicationReport(
                topology.name, coordination.connection, cluster.application(), life=lambda: log.life
            ),
            executors=cluster.executors,
            addresses=lambda: coordination.addresses,
            registered=lambda: coordination.alive,
            clock=clock,
        )
        closing.callback(watch.close)
        newest = coordination.latest if log.plans else None
        checkpoints = checkpoints_of(
            topology,
            settings,
            since=clock(),
            kept=complete_checkpoints(newest),
            newest=newest,
        )
        checkpoints.served(coordination.control.checkpoint_request)
        yield EpochLoop(
            topology=topology,
            coordination=coordination,
            cluster=cluster,
            epoch_log=log,
            planner=planner,
            send=send,
            checkpoints=checkpoints,
            retention=retention,
            sink=sink,
            settings=settings,
            clock=clock,
            stop=stop,
        )


def checkpoints_of(
    topology: Topology,
    settings: Environment,
    *,
    since: float,
    kept: list[int],
    newest: LatestCheckpoint | None,
) -> Checkpoints:
    """The coordinator of checkpoints, as the specification says, and where it does not, the installation."""
    spec = topology.spec
    return Checkpoints(
        topology=topology.name,
        partitions=topology.partitions,
        interval=spec.checkpoint_interval or settings.checkpoint_interval,
        since=since,
        kept=kept,
        highest=newest.highest if newest else 0,
        keep=spec.checkpoints_kept or settings.checkpoints_kept,
        keep_for=spec.checkpoints_kept_for or math.inf,
        pause=spec.checkpoint_pause or 0.0,
        at_once=spec.checkpoints_at_once,
        synchronous=spec.checkpoint_mode == "synchronous",
        timeout=spec.checkpoint_timeout or UPLOAD_TIMEOUT,
        tolerated=TOLERATED if spec.checkpoint_failures is None else spec.checkpoint_failures,
        completed=dict(zip(newest.kept, newest.kept_at, strict=False)) if newest else {},
    )


def open_log(
    settings: Environment,
    topology: Topology,
    coordination: TopologyChannel,
    clock: Callable[[], float] = time.time,
) -> EpochLog:
    """The epoch log of this deployment; what an earlier deployment of the same name left is cleared away.
    Where another version goes on from a checkpoint of this deployment, the log is put back to that. A
    deployment that begins with a savepoint has the log begin with it.

    Raises `EpochLogError` if the log is gone: the input would begin anew, beside what was given already. The
    same if it is of a later deployment than the plan.
    """
    path = epoch_log_directory(settings.home, topology.name) / "epochs.log"
    log = EpochLog(path, force=settings.force)
    origin, plan, newest = deployed_origin(topology), coordination.plan, coordination.latest
    # Once a plan was applied its deployment decides: an `origin` without a zone is another moment where the
    # host's zone has changed.
    other_clock = not log.generation and None not in (origin, log.origin_us) and origin != log.origin_us
    deployed_again = plan is not None and deployed_since(plan, log.generation)
    if plan is not None and 0 < plan.deployment < log.deployed:
        log.close()
        raise EpochLogError(
            f"{log.path} is of deployment {log.deployed}, and the newest plan of {plan.deployment}: the "
            "database that counted them was lost. Restore its backup; or undeploy the topology, move the "
            "file away, and deploy it again to start from its first tuple."
        )
    if plan is not None and newest is not None and newest.checkpoint and not log.plans:
        if newest.generation >= plan.deployment:
            log.close()
            raise EpochLogError(
                f"{log.path} is empty, although checkpoint {newest.checkpoint} of this deployment is "
                "complete. Restore the file from a backup, or undeploy the topology and deploy it again to "
                "start from its first tuple."
            )
        deployed_again = True
    spec = coordination.spec
    if not (other_clock or deployed_again):
        if spec is not None and 0 < log.computation != spec.computation > 0:
            sink = sink_create(topology.spec, settings.outputs, force=settings.force)
            go_over(
                topology,
                spec,
                log=log,
                coordination=coordination,
                checkpoints=settings.checkpoints,
                outputs=Path(settings.outputs) / topology.name,
                sink=sink,
            )
    else:
        coordination.reset_checkpoint()
        clear_earlier_deployment(
            topology=topology.name, log=log, outputs=Path(settings.outputs), checkpoints=settings.checkpoints
        )
    if spec is not None and spec.savepoint and not log.generation:  # no plan of this deployment was adopted
        try:
            from_savepoint.begin(
                topology,
                spec,
                log=log,
                coordination=coordination,
                checkpoints=settings.checkpoints,
                scratch=path.parent,
                clock=clock,
            )
        except BaseException:
            log.close()
            raise
    return log
