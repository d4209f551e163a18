"""Every supervised process of an installation."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from host.environment import Environment
from supervision.installation import Installation
from supervision.ports import LOOPBACK
from supervision.program import Program
from supervision.readiness import http_status
from supervision.redis_server import redis_program
from supervision.spark_master import spark_master_program
from supervision.zookeeper import zookeeper_program

# A process with a failed import or without access to its database has ended by then.
IMPORT_SECONDS = 10.0
# Bytes of a message that a websocket client may send; the dashboard's have less than a hundred.
LONGEST_MESSAGE = 65_536
CELERY = (sys.executable, "-m", "celery", "-A", "workers.celery_app")
WEB_OPTIONS = (
    *("--no-access-log", "--lifespan", "off"),
    *("--timeout-graceful-shutdown", "2"),
    # Compression runs once per client: with hundreds of clients it would take all processors.
    *("--ws-per-message-deflate", "false"),
    *("--http", "dashboard.request_heads:BoundedHeads"),
    # By default a client may have the server collect 16 MiB.
    *("--ws-max-size", str(LONGEST_MESSAGE)),
)


def log_says(installation: Installation, name: str, text: str) -> Callable[[], bool]:
    """Whether a process has written `text` to its log since this call; always true if the log level hides
    such lines."""
    if installation.settings.log_level not in ("DEBUG", "INFO"):
        return lambda: True
    path = installation.logs / f"{name}.log"
    before = path.stat() if path.exists() else None

    def says(one: Path) -> bool:
        try:
            with open(one, "rb") as stream:
                same = before is not None and os.fstat(stream.fileno()).st_ino == before.st_ino
                if one != path and not same:
                    return False
                stream.seek(before.st_size if before is not None and same else 0)
                return text.encode() in stream.read()
        except OSError:
            return False

    def ready() -> bool:
        # The supervisor may have rotated it since.
        return says(path) or says(path.with_name(f"{path.name}.1"))

    return ready


SERVERS = ("zookeeper", "redis", "spark-master")


def server_programs(
    home: Path, chosen: Mapping[str, int], settings: Environment, names: Collection[str]
) -> list[Program]:
    """Those of the servers that nodes and drivers need which run here, with the secrets of `settings`. Raises
    `MissingProgramError`."""
    makers: Mapping[str, Callable[[], Program]] = {
        "zookeeper": lambda: zookeeper_program(home=home, port=chosen["zookeeper"]),
        "redis": lambda: redis_program(
            home=home, port=chosen["redis"], url=settings.redis_url, demo=not settings.https
        ),
        "spark-master": lambda: spark_master_program(
            home=home,
            port=chosen["spark_master"],
            ui_port=chosen["spark_master_ui"],
            secret=settings.spark_secret,
        ),
    }
    return [makers[name]() for name in SERVERS if name in names]


def celery_worker(installation: Installation, name: str, *, threads: int) -> Program:
    """The Celery worker `name`, which takes the queue of that name."""
    return Program(
        name=name,
        command=(
            *(*CELERY, "worker", "--pool", "threads", "--without-gossip", "--without-mingle"),
            *("--loglevel", "INFO", "-Q", name, "--concurrency", str(threads), "-n", f"{name}@%h"),
        ),
        priority=40,
        ready=log_says(installation, name, " ready"),
        settle=IMPORT_SECONDS,
        stop_wait=8,
    )


def control_programs(installation: Installation) -> list[Program]:
    """The control plane. Stopping goes by descending priority: the processes that watch nodes end first, or
    they would take the end of the nodes for a failure."""
    port = installation.settings.port
    # Containers listen on other addresses too: their network is the boundary.
    bind = installation.variables.get("RESURGE_BIND", LOOPBACK)
    # Without TLS there is no proxy: what connects from this host does not say which client it stands for.
    proxied = installation.settings.https or os.environ.get("FORWARDED_ALLOW_IPS")
    return [
        Program(
            name="web",
            command=(
                *(sys.executable, "-m", "uvicorn", "dashboard.asgi:application"),
                *("--host", bind, "--port", str(port), *WEB_OPTIONS),
                *(() if proxied else ("--no-proxy-headers",)),
            ),
            priority=20,
            ready=lambda: http_status(LOOPBACK, port, "/healthz") == 200,
            settle=IMPORT_SECONDS,
            stop_wait=5,
        ),
        Program(
            name="launcher",
            command=(sys.executable, "manage.py", "launcher"),
            priority=30,
            ready=log_says(installation, "launcher", "launcher starts"),
            settle=IMPORT_SECONDS,
            stop_wait=60,
        ),
        celery_worker(installation, "detection", threads=2),
        celery_worker(installation, "recovery", threads=4),
        celery_worker(installation, "webhooks", threads=4),
        Program(
            name="beat",
            command=(*CELERY, "beat", "--pidfile=", "--loglevel", "WARNING"),
            priority=40,
            ready=lambda: True,  # it logs nothing while it works
            settle=IMPORT_SECONDS,
            stop_wait=5,
        ),
    ]
