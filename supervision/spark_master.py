"""Spark's standalone master."""

from __future__ import annotations

import shutil
from pathlib import Path

from host.java import spark_daemon_command, spark_variables
from host.spark_properties import daemon_properties_write
from supervision.ports import LOOPBACK
from supervision.program import Program
from supervision.readiness import tcp_open
from supervision.zookeeper import log_configuration


def spark_master_program(*, home: Path, port: int, ui_port: int, secret: str) -> Program:
    """Describe the process, which answers only those who know `secret`. A restarted master finds its
    applications again in `spark/recovery`; `spark_recovery_clear` empties that when a whole installation
    starts. It has no workers, since agents start executors."""
    recovery = home / "spark" / "recovery"
    recovery.mkdir(parents=True, exist_ok=True)
    return Program(
        name="spark-master",
        command=(
            *spark_daemon_command(
                "org.apache.spark.deploy.master.Master",
                heap_mb=192,
                options=(
                    f"-Dlog4j2.configurationFile={log_configuration(home)}",
                    "-Dspark.deploy.recoveryMode=FILESYSTEM",
                    f"-Dspark.deploy.recoveryDirectory={recovery}",
                    "-Dspark.deploy.retainedApplications=10",
                    "-Dspark.deploy.retainedDrivers=0",
                ),
            ),
            "--host",
            LOOPBACK,
            "--port",
            str(port),
            "--webui-port",
            str(ui_port),
            *daemon_properties_write(home / "spark" / "master.properties", secret),
        ),
        environment=spark_variables(LOOPBACK),
        priority=10,
        ready=lambda: tcp_open(LOOPBACK, port),
    )


def spark_recovery_clear(home: Path) -> None:
    """Forget the applications of the previous run: none of them is alive any more."""
    shutil.rmtree(home / "spark" / "recovery", ignore_errors=True)
