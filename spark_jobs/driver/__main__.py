"""`python -m spark_jobs.driver --topology NAME`: run one topology until it ends or is undeployed.

Exit status 0 when the input ended or the topology was undeployed; 1 after an error, when the topology was
deployed again meanwhile, or when ZooKeeper does not say yet that it is to run. Then it may simply be started
again: everything it needs to go on is in the epoch log, on the nodes and in ZooKeeper.
"""

from __future__ import annotations

import argparse
import logging.config
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path

import pyspark
import structlog

from domain.messages import DriverStatus, ProblemReport
from domain.topology import load_topology
from domain.values import MEMORY_PATTERN
from host import environment
from host.logs import logging_configuration
from host.private import umask_set
from host.process_secrets import withheld
from spark_jobs.driver.assembly import epoch_loop
from spark_jobs.driver.epoch_log import epoch_log_directory
from spark_jobs.driver.loop import MakeWayError
from spark_jobs.driver.only_driver import AnotherDriverError, only_driver
from spark_jobs.driver.telemetry import TelemetryStream
from spark_jobs.driver.topology_channel import TopologyChannel
from spark_jobs.operators.catalogue import catalogue

log = structlog.get_logger()
SECOND = "The driver that runs goes on. Find out what started a second one."


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m spark_jobs.driver", description=__doc__)
    parser.add_argument("--topology", required=True, help="name of a deployed topology")
    parser.add_argument(
        "--executor-memory", default="768m", type=_memory, help="memory of each executor (default 768m)"
    )
    options = parser.parse_args(arguments)
    umask_set()
    settings = environment.read()
    logging.config.dictConfig(logging_configuration(settings.log_level))
    logging.getLogger("py4j").setLevel(logging.WARNING)
    prepare_spark_environment()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    telemetry = TelemetryStream(settings.redis_url)
    coordination = TopologyChannel(
        topology=options.topology,
        hosts=settings.zookeeper,
        session_timeout=settings.session_timeout,
        secret=settings.zookeeper_secret,
    )
    try:
        coordination.connect()
        return _drive(options, settings, stop, telemetry, coordination)
    except MakeWayError as reason:
        # Exit status 0 would say that the deployment has completed.
        log.info("driver makes way for another", reason=str(reason))
        return 1
    except AnotherDriverError as error:
        # The other one says how the topology is.
        log.error("driver ends", error=str(error))
        telemetry.send(ProblemReport(topology=options.topology, where="driver", what=str(error), hint=SECOND))
        return 1
    except Exception as error:
        log.exception("driver failed")
        _report(options.topology, error, telemetry, coordination)
        return 1
    finally:
        coordination.close()
        telemetry.close()


def prepare_spark_environment() -> None:
    """What PySpark reads from the environment when it starts its JVM, and what it must not find there."""
    for name in withheld("driver-jvm"):
        os.environ.pop(name, None)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)


def _memory(text: str) -> str:
    if not re.match(MEMORY_PATTERN, text):
        raise argparse.ArgumentTypeError(f"{text!r} is no amount of memory such as 768m or 2g")
    return text


def _drive(
    options: argparse.Namespace,
    settings: environment.Environment,
    stop: threading.Event,
    telemetry: TelemetryStream,
    coordination: TopologyChannel,
) -> int:
    with only_driver(epoch_log_directory(settings.home, options.topology), options.topology):
        coordination.wait_for_predecessor()
        coordination.refresh(force=True)
        if coordination.spec is None:
            raise LookupError(
                f"topology {options.topology!r} is not deployed: ZooKeeper has no specification of it"
            )
        if coordination.spec.desired == "stopped":
            raise MakeWayError("the topology is undeployed, or ZooKeeper does not know of its deployment yet")
        with epoch_loop(
            topology=load_topology(coordination.spec.spec, catalogue),
            settings=settings,
            coordination=coordination,
            send=telemetry.send,
            stop=stop,
            executor_memory=options.executor_memory,
        ) as loop:
            state = loop.run()
            log.info("driver ended", state=state)
    return 0


def _report(
    topology: str, error: Exception, telemetry: TelemetryStream, coordination: TopologyChannel
) -> None:
    """Tell operators why the driver ended; the launcher starts it again."""
    where, hint = getattr(error, "where", "driver"), getattr(error, "hint", "See the driver's log.")
    what = str(error) or type(error).__name__
    telemetry.send(ProblemReport(topology=topology, where=where, what=what, hint=hint))
    telemetry.send(
        DriverStatus(
            topology=topology,
            pid=os.getpid(),
            session=coordination.session,
            generation=coordination.plan.generation if coordination.plan else 0,
            state="failed",
            head=0,
            committed=0,
            checkpoint=coordination.latest.checkpoint if coordination.latest else 0,
            error=what,
            at=time.time(),
        )
    )


if __name__ == "__main__":
    sys.exit(main())
