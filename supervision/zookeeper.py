"""The embedded ZooKeeper: the server inside the PySpark wheel with its data under RESURGE_HOME."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from coordination.packing import LARGEST_REQUEST
from coordination.paths import ROOT
from coordination.session import Session
from host.environment import Environment
from host.java import jvm_command
from supervision.ports import LOOPBACK
from supervision.program import Program
from supervision.readiness import tcp_answer

# Sessions expire in whole ticks, so a short tick keeps detection close to the session timeout.
TICK_MS = 250
MIN_SESSION_MS = 1000
MAX_SESSION_MS = 120_000
HEAP_MB = 512
"""At most: the server keeps its last 500 writes twice. What a driver says of 40,000 partitions has 400 kB."""
WHOLE_SERVER = ("/", "/zookeeper", "/zookeeper/quota")


def zookeeper_program(*, home: Path, port: int) -> Program:
    """Write `zookeeper/zoo.cfg` and describe the process. Survives restarts with its data."""
    directory = home / "zookeeper"
    (directory / "data").mkdir(parents=True, exist_ok=True)
    configuration = directory / "zoo.cfg"
    configuration.write_text(
        "\n".join(
            (
                f"tickTime={TICK_MS}",
                f"dataDir={directory / 'data'}",
                f"clientPort={port}",
                f"clientPortAddress={LOOPBACK}",
                f"minSessionTimeout={MIN_SESSION_MS}",
                f"maxSessionTimeout={MAX_SESSION_MS}",
                "maxClientCnxns=0",
                "admin.enableServer=false",
                "4lw.commands.whitelist=ruok",
                # A small snapshot each hour or so of a few nodes' heartbeats; three are kept.
                "snapCount=20000",
                "autopurge.snapRetainCount=3",
                "autopurge.purgeInterval=1",
                "",
            )
        )
    )
    return Program(
        name="zookeeper",
        command=(
            *jvm_command(
                "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                heap_mb=HEAP_MB,
                options=(
                    f"-Djute.maxbuffer={LARGEST_REQUEST}",
                    "-Xms64m",
                    # Kilobytes; the default reserves 64 MB for every log file.
                    "-Dzookeeper.preAllocSize=4096",
                    f"-Dlog4j2.configurationFile={log_configuration(home)}",
                ),
            ),
            str(configuration),
        ),
        priority=10,
        ready=lambda: tcp_answer(LOOPBACK, port, b"ruok") == b"imok",
    )


def tree_close(settings: Environment, *, whole_server: bool) -> None:
    """Take the product's tree from every client without the secret, also what an earlier version left open.
    `whole_server`: no such client may create anything beside the tree either, since the server is our own.

    Raises `CoordinationUnavailableError`, with a sentence, also where the tree has another secret.
    """
    with closing(Session(settings.zookeeper, 10.0, secret=settings.zookeeper_secret)) as session:
        session.start()
        session.require_connected(30)
        session.restrict(ROOT, WHOLE_SERVER if whole_server else ())


def log_configuration(home: Path) -> Path:
    """Write the JVMs' logging configuration (warnings and errors to standard error); returns its path."""
    path = home / "run" / "log4j2.properties"
    text = "\n".join(
        (
            "rootLogger.level = warn",
            "rootLogger.appenderRef.console.ref = console",
            "appender.console.type = Console",
            "appender.console.name = console",
            "appender.console.target = SYSTEM_ERR",
            "appender.console.layout.type = PatternLayout",
            "appender.console.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSS} %p %c{1}: %m%n%ex",
            # Says at each start that this machine has no Hadoop libraries in C; they are not used.
            "logger.native.name = org.apache.hadoop.util.NativeCodeLoader",
            "logger.native.level = error",
            "",
        )
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)
    return path
