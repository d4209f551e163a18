"""`python -m supervision.class_archive_build`: make the shared class archive where there is none yet.

Starts ZooKeeper, a Spark master and a driver with one executor in a temporary directory, records the classes
they load, and lets the JVM archive those. Takes half a minute of processor time at low priority.
Exit status 1, and no archive, when it fails.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from host.class_archive import archive_path, class_path_once, merge_class_lists, spark_class_path
from host.environment import ROOT
from host.java import MissingProgramError, java_home, spark_home
from host.processes import die_with_parent, end_session
from spark_jobs.agent.executors import Executors
from spark_jobs.driver.cluster import Cluster
from supervision import ports
from supervision.ports import LOOPBACK
from supervision.program import Program
from supervision.readiness import NotReadyError, wait_until
from supervision.spark_master import spark_master_program
from supervision.zookeeper import zookeeper_program

TRAINING = "training"
READY_TIMEOUT = 120.0
DUMP_TIMEOUT = 600.0
# The current archive and the one before it, for a Java that is switched back and forth.
KEPT = 2


class ArchiveError(RuntimeError):
    """No archive could be made; the message says why."""


def main() -> int:
    try:
        archive = archive_path(java_home() / "bin" / "java", spark_home())
        archive.parent.mkdir(parents=True, exist_ok=True)
        # One build at a time; a process that had to wait finds the archive made.
        lock = os.open(archive.parent, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.is_file():
            os.nice(10)
            build(archive)
    except (ArchiveError, MissingProgramError, NotReadyError, OSError) as error:
        print(f"no class archive: {error}", file=sys.stderr)
        return 1
    return 0


def build(archive: Path) -> None:
    """Train, archive, check, and put the file in place complete; raises what `main` catches."""
    with tempfile.TemporaryDirectory(prefix="resurge-classes-") as name:
        directory = Path(name)
        os.environ["JDK_JAVA_OPTIONS"] = f"-XX:DumpLoadedClassList={directory}/%p.classes"
        try:
            train(directory)
        finally:
            del os.environ["JDK_JAVA_OPTIONS"]
        lists = [path.read_text() for path in sorted(directory.glob("*.classes"))]
        (directory / "classes").write_text(merge_class_lists(lists))
        partial = archive.with_suffix(f".{os.getpid()}.partial")
        try:
            try:
                _archive(directory, partial, spark_class_path(spark_home()))
            except ArchiveError:
                _archive(directory, partial, class_path_once(spark_home()))
            partial.replace(archive)
        finally:
            partial.unlink(missing_ok=True)
    archives = sorted(archive.parent.glob("*.jsa"), key=lambda path: path.stat().st_mtime)
    for old in archives[:-KEPT]:
        old.unlink(missing_ok=True)


def _archive(directory: Path, partial: Path, class_path: str) -> None:
    """Archive the classes on `class_path`, and check that JVMs accept the archive."""
    partial.unlink(missing_ok=True)
    _java(
        directory,
        "-Xshare:dump",
        # Only this collector can archive objects as well; others can use them.
        *("-XX:+UseG1GC", "-Xmx512m"),
        f"-XX:SharedClassListFile={directory / 'classes'}",
        f"-XX:SharedArchiveFile={partial}",
        *("-cp", class_path),
    )
    _java(
        directory,
        *("-Xshare:on", f"-XX:SharedArchiveFile={partial}"),
        *("-cp", spark_class_path(spark_home()), "-version"),
    )


def _java(directory: Path, *options: str) -> None:
    command = (str(java_home() / "bin" / "java"), f"-XX:ErrorFile={directory / 'crash'}", *options)
    try:
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, check=False, timeout=DUMP_TIMEOUT
        )
    except subprocess.TimeoutExpired as error:
        raise ArchiveError(f"java {options[0]} took more than {DUMP_TIMEOUT:.0f} s") from error
    if done.returncode != 0:
        raise ArchiveError(f"java {options[0]}: {(done.stderr or done.stdout).strip()[-500:]}")


def train(home: Path) -> None:
    """Run each kind of JVM of an installation until it has done its work once."""
    for directory in ("run", "log", "spark", "node"):
        (home / directory).mkdir()
    os.environ.update(PYTHONPATH=str(ROOT), PYSPARK_PYTHON=sys.executable, SPARK_HOME=str(spark_home()))
    os.environ["JAVA_HOME"] = str(java_home())
    secret = secrets.token_urlsafe(32)
    chosen = ports.choose(home / "run" / "ports.json")
    with ExitStack() as closing:
        for program in (
            zookeeper_program(home=home, port=chosen["zookeeper"]),
            spark_master_program(
                home=home, port=chosen["spark_master"], ui_port=chosen["spark_master_ui"], secret=secret
            ),
        ):
            child = _spawn(program, home)
            closing.callback(child.wait)
            closing.callback(end_session, child.pid, grace=10)
            wait_until(program.ready, what=program.name, timeout=READY_TIMEOUT)
        master = f"spark://{LOOPBACK}:{chosen['spark_master']}"
        executors = Executors(
            node=TRAINING, address=LOOPBACK, slots=1, secret=secret, home=home, node_home=home / "node"
        )
        closing.callback(executors.stop_all)
        _run_application(master, secret, home, executors)


def _spawn(program: Program, home: Path) -> subprocess.Popen[bytes]:
    with open(home / "log" / f"{program.name}.log", "ab") as output:
        return subprocess.Popen(
            (*die_with_parent(), *program.command),
            env={**os.environ, **program.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _run_application(master: str, secret: str, home: Path, executors: Executors) -> None:
    cluster = Cluster(
        topology=TRAINING,
        master=master,
        secret=secret,
        host=LOOPBACK,
        executor_memory="512m",
        local_dir=str(home / "spark"),
    )
    gateway: Any = cluster.context._gateway
    try:
        executors.reconcile({TRAINING: cluster.application()})
        wait_until(lambda: bool(cluster.executors()), what="Spark's executor", timeout=READY_TIMEOUT)
        cluster.pin([LOOPBACK], lambda: False)
        cluster.exchange([_messages, _messages])
        cluster.unpin()
    finally:
        cluster.stop()
        # The driver's JVM ends with its standard input, and only then is its list complete.
        gateway.proc.stdin.close()
        gateway.proc.wait(READY_TIMEOUT)


def _messages(slot: int, records: Iterator[Any]) -> Iterator[Any]:
    """A stage that sends one message of the kind the engine's stages send."""
    for _ in records:
        pass
    yield slot, ("row", "O1[0]", "O2[0]", 1, b"row")


if __name__ == "__main__":
    sys.exit(main())
