"""When an agent starts, ends and replaces its executors."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from domain.messages import SparkApplication
from spark_jobs.agent import executors as module
from spark_jobs.agent.executors import RESTART_FIRST, Executors

APPLICATION = SparkApplication(id="app-1", host="127.0.0.1", port=4040, memory="512m", pid=1)
NEXT = msgspec.structs.replace(APPLICATION, id="app-2", port=4041)


class _Process:
    """One that runs until it is told to end."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], cwd: Path, **_: Any) -> None:
        self.command, self.environment, self.directory = tuple(command), env, cwd
        self.pid = 1
        self.returncode: int | None = None
        self.signals: list[str] = []

    def argument(self, name: str) -> str:
        return self.command[self.command.index(name) + 1]

    def poll(self) -> int | None:
        return self.returncode

    def terminate(self) -> None:
        self.signals.append("terminate")
        self.returncode = 0

    def kill(self) -> None:
        self.signals.append("kill")
        self.returncode = -9

    def wait(self, timeout: float | None = None) -> int | None:
        return self.returncode


class Node:
    """An agent's executors, what they started, the drivers' ports that take connections, and the time."""

    def __init__(self, home: Path, secret: str = "") -> None:
        self.started: list[_Process] = []
        self.listening = {4040, 4041}
        self.now = 100.0
        self.home = home / "node-1"
        self.executors = Executors(
            node="node-1", address="127.0.1.1", slots=1, secret=secret, home=home, node_home=self.home
        )

    def start(self, command: Sequence[str], **options: Any) -> _Process:
        self.started.append(_Process(command, **options))
        return self.started[-1]

    def reconcile(self, application: SparkApplication | None = APPLICATION, *, after: float = 0.0) -> int:
        """How many were started so far."""
        self.now += after
        self.executors.reconcile({"hashtags": application})
        return len(self.started)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    made = Node(tmp_path)
    monkeypatch.setattr("spark_jobs.agent.executors.subprocess.Popen", made.start)
    monkeypatch.setattr(module, "_listens", lambda host, port: port in made.listening)
    monkeypatch.setattr("spark_jobs.agent.executors.time.monotonic", lambda: made.now)
    return made


def test_it_registers_with_the_driver_of_the_application(node: Node) -> None:
    assert node.reconcile() == 1
    assert node.reconcile() == 1, "it runs"
    (executor,) = node.started
    assert executor.argument("--driver-url") == "spark://CoarseGrainedScheduler@127.0.0.1:4040"
    assert (executor.argument("--app-id"), executor.argument("--hostname")) == ("app-1", "127.0.1.1")
    assert "-Xmx512m" in executor.command
    assert executor.directory == node.home / "work/hashtags/app-1" / executor.argument("--executor-id")
    assert executor.argument("--cores") == "3", (
        "one for the present, one for a replay, one for what is prepared"
    )
    assert node.executors.topologies == ["hashtags"]
    assert node.executors.processes() == {"hashtags": 1}


def test_the_secret_is_in_its_environment_and_not_in_its_command(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESURGE_SPARK_SECRET", "s3cret")
    with_secret = Node(node.home.parent, "s3cret")
    with_secret.reconcile()
    (executor,) = node.started
    assert executor.environment["_SPARK_AUTH_SECRET"] == "s3cret"
    assert "RESURGE_SPARK_SECRET" not in executor.environment
    assert not any("s3cret" in part for part in executor.command)
    assert "-Dspark.authenticate=true" in executor.command


def test_without_a_driver_none_is_started_and_one_that_runs_goes_on(node: Node) -> None:
    assert node.reconcile(None) == 0
    assert node.reconcile() == 1
    assert node.reconcile(None) == 1
    assert node.started[0].signals == []


def test_it_waits_for_a_driver_that_takes_no_connections(node: Node) -> None:
    node.listening = set()
    assert node.reconcile() == 0
    node.listening = {4040, 4041}
    assert node.reconcile(after=RESTART_FIRST / 2) == 0, "it is not asked all the time"
    assert node.reconcile(after=RESTART_FIRST) == 1


def test_another_application_replaces_it_at_once(node: Node) -> None:
    node.reconcile()
    assert node.reconcile(NEXT) == 2
    assert node.started[0].signals == ["kill"]
    node.started[1].returncode = 1
    assert node.reconcile(NEXT) == 2, "it has just exited"
    assert node.reconcile(APPLICATION) == 3, "the pause was for the other application"


def test_one_that_the_driver_has_given_up_is_replaced(node: Node) -> None:
    node.reconcile()
    gone = node.started[0].argument("--executor-id")
    other = msgspec.structs.replace(APPLICATION, ended=[f"{gone}1"])
    assert node.reconcile(other) == 1, "that is one of another node"
    given_up = msgspec.structs.replace(APPLICATION, ended=["5", gone])
    assert node.reconcile(given_up) == 2
    assert node.started[0].signals == ["kill"]
    assert node.started[1].argument("--executor-id") != gone
    assert node.reconcile(given_up) == 2


def test_pauses_get_longer_until_one_has_lived(node: Node) -> None:
    starts = []
    node.reconcile()
    for _ in range(4):
        node.started[-1].returncode = 1
        waited = 0.0
        count = node.reconcile()
        while node.reconcile(after=0.25) == count:
            waited += 0.25
        starts.append(waited + 0.25)
    assert starts == [0.5, 1.0, 2.0, 4.0]
    node.now += module.HEALTHY_AFTER + 1
    node.started[-1].returncode = 1
    count = node.reconcile()
    assert node.reconcile(after=0.5) == count + 1


def test_one_that_cannot_be_started_ends_nothing_else(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the whole node ended, with the executors of other topologies, wherever a disk is full."""
    wanted = {"hashtags": APPLICATION}
    node.executors.reconcile(wanted)
    start, tries = node.start, []

    def full(command: Sequence[str], **options: Any) -> _Process:
        tries.append(node.now)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("spark_jobs.agent.executors.subprocess.Popen", full)
    wanted["counts"] = NEXT
    for _ in range(8):
        node.now += 0.5
        node.executors.reconcile(wanted)
    assert node.executors.topologies == ["hashtags"]
    assert tries == [100.5, 101.0, 102.0, 104.0]
    monkeypatch.setattr("spark_jobs.agent.executors.subprocess.Popen", start)
    node.now += module.RESTART_LAST
    node.executors.reconcile(wanted)
    assert node.executors.topologies == ["counts", "hashtags"]


def test_it_ends_when_its_topology_is_not_wanted_and_with_the_agent(node: Node) -> None:
    node.reconcile()
    node.executors.reconcile({})
    assert node.started[0].signals == ["terminate"]
    assert node.executors.topologies == []
    node.reconcile()
    node.executors.stop_all()
    assert node.started[1].signals == ["terminate"]
    assert node.executors.topologies == []


def test_one_that_does_not_end_when_it_is_told_to_is_killed(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(process: _Process, timeout: float | None = None) -> int | None:
        if timeout is not None and "kill" not in process.signals:
            raise subprocess.TimeoutExpired(process.command, timeout)
        return process.returncode

    monkeypatch.setattr(_Process, "wait", wait)
    node.reconcile()
    node.executors.reconcile({})
    assert node.started[0].signals == ["terminate", "kill"]
    assert node.executors.topologies == []


def test_the_output_of_the_one_before_stays_and_its_shuffle_files_go(node: Node) -> None:
    (node.home / "work" / "hashtags").mkdir(parents=True)
    (node.home / "work" / "hashtags" / "resources.json").write_text("[]")  # of a version before
    for number in range(4):
        node.reconcile(msgspec.structs.replace(APPLICATION, id=f"app-{number}"))
        executor = node.started[-1]
        (executor.directory / "stderr").write_text("why it ended")
        os.utime(executor.directory, (number, number))
        scratch = Path(executor.environment["SPARK_LOCAL_DIRS"])
        assert list(scratch.iterdir()) == []
        (scratch / "blockmgr-1").mkdir()
    work = node.home / "work" / "hashtags"
    assert sorted(path.name for path in work.iterdir()) == ["app-2", "app-3", "resources.json"]
    node.executors.forget("hashtags", {})
    assert work.exists(), "an executor runs"
    node.executors.stop_all()
    node.executors.forget("hashtags", {"hashtags": None})
    assert work.exists(), "one will run"
    node.executors.forget("hashtags", {})
    assert not work.exists()
    assert not (node.home / "spark" / "hashtags").exists()


def test_a_port_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert module._listens("127.0.0.1", port)
    assert not module._listens("127.0.0.1", port)
