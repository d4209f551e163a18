"""`python -m spark_jobs.driver --topology NAME`: run one topology until it ends or is undeployed.

Exit status 0 when the input ended or the topology was undeployed; 1 after an error, and then it may simply
be started again: everything it needs to go on is in the epoch log, on the nodes and in ZooKeeper.
"""

from __future__ import annotations

import argparse
import logging.config
import os
import signal
import sys
import threading
from pathlib import Path

import pyspark
import structlog

from controlplane.config import environment
from controlplane.config.logs import logging_configuration
from controlplane.domain.coordination import DriverStatus, ProblemReport
from controlplane.domain.topology import Topology, load_topology
from spark_jobs.driver.checkpoints import Checkpoints
from spark_jobs.driver.cluster import Cluster
from spark_jobs.driver.coordination import Coordination
from spark_jobs.driver.epoch_log import EpochLog
from spark_jobs.driver.fresh_start import clear_earlier_deployment, deployed_origin
from spark_jobs.driver.intake import Intake, monotonic_clock
from spark_jobs.driver.loop import EpochLoop
from spark_jobs.driver.retention import Retention
from spark_jobs.driver.telemetry import TelemetryStream
from spark_jobs.operators.catalogue import catalogue

log = structlog.get_logger()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m spark_jobs.driver", description=__doc__)
    parser.add_argument("--topology", required=True, help="name of a deployed topology")
    parser.add_argument("--executor-memory", default="768m", help="memory of each executor (default 768m)")
    options = parser.parse_args(arguments)
    settings = environment.read()
    logging.config.dictConfig(logging_configuration(settings.log_level))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    telemetry = TelemetryStream(settings.redis_url)
    coordination = Coordination(
        topology=options.topology, hosts=settings.zookeeper, session_timeout=settings.session_timeout
    )
    coordination.connect()
    try:
        return _drive(options, settings, stop, telemetry, coordination)
    except Exception as error:
        log.exception("driver failed")
        where, hint = getattr(error, "where", "driver"), getattr(error, "hint", "See the driver's log.")
        telemetry.send(ProblemReport(topology=options.topology, where=where, what=str(error), hint=hint))
        telemetry.send(
            DriverStatus(
                topology=options.topology,
                pid=os.getpid(),
                session=coordination.session,
                generation=coordination.plan.generation if coordination.plan else 0,
                state="failed",
                head=0,
                committed=0,
                checkpoint=0,
                error=str(error),
                at=monotonic_clock()(),
            )
        )
        return 1
    finally:
        coordination.close()
        telemetry.close()


def _drive(
    options: argparse.Namespace,
    settings: environment.Environment,
    stop: threading.Event,
    telemetry: TelemetryStream,
    coordination: Coordination,
) -> int:
    coordination.wait_for_predecessor()
    coordination.refresh(force=True)
    if coordination.spec is None:
        raise LookupError(
            f"topology {options.topology!r} is not deployed: ZooKeeper has no specification of it"
        )
    if coordination.spec.desired == "stopped":
        return 0
    topology = load_topology(coordination.spec.spec, catalogue)
    clock = monotonic_clock()
    modules = list(settings.operator_modules)
    epoch_log = _open_log(settings, topology, coordination)
    intake = Intake(topology=topology, log=epoch_log, home=settings.home, modules=modules, clock=clock)
    intake.prepare(telemetry.send)
    local = settings.home / "spark" / topology.name
    local.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(
        topology=topology.name,
        master=settings.spark_master,
        executor_memory=options.executor_memory,
        local_dir=str(local),
    )
    retention = Retention(url=settings.checkpoints, topology=topology.name)
    latest = coordination.latest.checkpoint if coordination.latest and epoch_log.plans else 0
    checkpoints = Checkpoints(
        topology=topology.name,
        partitions=topology.partitions,
        interval=topology.spec.checkpoint_interval,
        store=coordination,
        report=telemetry.send,
        latest=latest,
        clock=clock,
    )
    checkpoints.served(coordination.control.checkpoint_request)
    retention.completed(latest)
    loop = EpochLoop(
        topology=topology,
        coordination=coordination,
        cluster=cluster,
        epoch_log=epoch_log,
        intake=intake,
        send=telemetry.send,
        checkpoints=checkpoints,
        retention=retention,
        outputs=settings.outputs,
        checkpoint_url=settings.checkpoints,
        modules=modules,
        clock=clock,
        stop=stop,
    )
    checkpoints.report = loop.report_checkpoint
    try:
        state = loop.run()
        log.info("driver ended", state=state)
        return 0
    finally:
        cluster.stop()
        retention.close()
        epoch_log.close()


def _open_log(settings: environment.Environment, topology: Topology, coordination: Coordination) -> EpochLog:
    """The epoch log of this deployment; one of an earlier deployment of the same name is cleared away."""
    path = settings.home / "topologies" / topology.name / "epochs.log"
    epoch_log = EpochLog(path)
    origin, plan = deployed_origin(topology), coordination.plan
    other_clock = None not in (origin, epoch_log.origin_us) and origin != epoch_log.origin_us
    deployed_again = plan is not None and plan.kind == "deploy" and plan.generation > epoch_log.generation > 0
    if not (other_clock or deployed_again):
        return epoch_log
    epoch_log.close()
    coordination.reset_checkpoint()
    clear_earlier_deployment(
        topology=topology.name,
        directory=path.parent,
        outputs=Path(settings.outputs),
        checkpoints=settings.checkpoints,
    )
    return EpochLog(path)


if __name__ == "__main__":
    sys.exit(main())
