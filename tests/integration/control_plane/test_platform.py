"""The processes below the engine: nodes, their registration and executors, restarts, and a clean end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from coordination.paths import Paths
from coordination.session import USER
from domain.messages import (
    DeployedSpec,
    Former,
    NodeRegistration,
    NodeStats,
    SparkApplication,
    decode,
    encode,
)
from harness.eventually import eventually
from harness.stack import Stack, free_port, settings_of_the_shell_replaced
from host.environment import ROOT
from host.processes import session_members
from supervision.data_plane import DataPlane

pytestmark = pytest.mark.integration


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[DataPlane]:
    with settings_of_the_shell_replaced({}):
        made = DataPlane(tmp_path / "home", environment={"RESURGE_HEARTBEAT_INTERVAL": "0.3"})
        try:
            made.start(nodes=2)
            yield made
        finally:
            made.stop()


@pytest.fixture
def client(plane: DataPlane) -> Iterator[KazooClient]:
    secret = f"{USER}:{plane.environment['RESURGE_ZOOKEEPER_SECRET']}"
    made = KazooClient(plane.environment["RESURGE_ZOOKEEPER"], timeout=4.0, auth_data=[("digest", secret)])
    made.start(timeout=20)
    yield made
    made.stop()
    made.close()


def read(client: KazooClient, path: str) -> bytes | None:
    """The data of a znode; None if it is missing, as ephemeral ones may be at any moment. The client may not
    have noticed yet that ZooKeeper was killed: it asks again."""
    try:
        data: bytes = client.retry(client.get, path)[0]
    except NoNodeError:
        return None
    return data


def registration(client: KazooClient, node: str) -> NodeRegistration | None:
    data = read(client, Paths.node(node))
    return decode(data, NodeRegistration) if data else None


def test_nodes_register_work_and_survive_zookeeper(
    plane: DataPlane, client: KazooClient, request: pytest.FixtureRequest
) -> None:
    def registered(node: str) -> NodeRegistration | None:
        return registration(client, node)

    def executors(node: str) -> list[str]:
        data = read(client, Paths.stats(node))
        return decode(data, NodeStats).topologies if data else []

    eventually(lambda: registered("node-1") and registered("node-2"), "both nodes register")
    first = registered("node-1")
    assert first is not None
    assert (first.address, first.rack, first.slots) == ("127.0.1.1", "rack-a", 2)

    spec = encode(DeployedSpec(name="one", version=1, spec={}))
    client.create(Paths.spec("one"), spec, makepath=True)
    # A driver that takes connections and does not answer: executors wait for it.
    driver = socket.create_server(("127.0.0.1", 0), backlog=100)
    request.addfinalizer(driver.close)
    application = encode(
        SparkApplication(
            id="app-1", host="127.0.0.1", port=driver.getsockname()[1], memory="512m", pid=os.getpid()
        )
    )
    client.create(Paths.application("one"), application, ephemeral=True)
    eventually(lambda: executors("node-1") == ["one"] and executors("node-2") == ["one"], "executors start")
    processes = {member.pid for member in session_members(first.pid)}
    assert len(processes) == 2, "the agent and its executor"

    # ZooKeeper comes back without its data: new sessions, the same processes.
    zookeeper = plane.child("zookeeper")
    zookeeper.kill()
    zookeeper.wait()
    shutil.rmtree(plane.home / "zookeeper" / "data")
    (plane.home / "zookeeper" / "data").mkdir()
    plane.restart("zookeeper")
    eventually(lambda: client.connected, "the test's own client is back", 60)
    eventually(lambda: registered("node-1") is not None, "registered again", 60)
    again = registered("node-1")
    assert again is not None
    assert again.pid == first.pid
    assert again.session != first.session
    assert {member.pid for member in session_members(first.pid)} == processes
    client.create(Paths.spec("one"), spec, makepath=True)

    # After undeploying, the executor ends once no driver is left, and the node stays.
    client.create(Paths.driver("one"), b"{}", ephemeral=True, makepath=True)
    beat = client.get(Paths.stats("node-1"))[1].version
    client.set(Paths.spec("one"), encode(DeployedSpec(name="one", version=1, spec={}, desired="stopped")))
    eventually(lambda: client.get(Paths.stats("node-1"))[1].version > beat + 2, "some beats")
    assert executors("node-1") == ["one"], "the driver may still take its last checkpoint"
    client.delete(Paths.driver("one"))
    eventually(lambda: executors("node-1") == [], "the executor ends")
    assert session_members(first.pid)[0].pid == first.pid

    # All processes of a killed node end; its registration ends with the session.
    plane.provider.fail("node-2")
    eventually(lambda: registered("node-2") is None, "the registration of a dead node ends", 15)


def test_a_restarted_agent_replaces_the_registration_of_its_predecessor(
    plane: DataPlane, client: KazooClient
) -> None:
    eventually(lambda: registration(client, "node-1"), "the node registers")
    before = registration(client, "node-1")
    assert before is not None
    description = plane.provider.nodes()[0].description
    plane.provider.fail("node-1")
    disk = plane.home / "nodes" / "node-1"
    for kind in ("state", "buffers"):
        for one in ("deleted/3", "deleted/4", "other/3"):
            (disk / kind / one / "V-0").mkdir(parents=True)
    (disk / "snapshots" / "deleted" / "30.3.0.3").mkdir(parents=True)
    (disk / "work" / "deleted" / "app-1").mkdir(parents=True)
    client.create(Paths.former("deleted"), encode(Former(generation=3)), makepath=True)
    plane.provider.launch(description)

    def replaced() -> bool:
        found = registration(client, "node-1")
        return found is not None and found.session != before.session

    eventually(replaced, "the successor registers")
    after = registration(client, "node-1")
    assert after is not None
    assert after.pid != before.pid
    # A topology was deleted while it was down.
    left = {f"{kind}/{one}/V-0" for kind in ("state", "buffers") for one in ("deleted/4", "other/3")}
    eventually(
        lambda: (
            {str(path.relative_to(disk)) for path in disk.glob("*/*/*/V-0")} == left
            and not (disk / "snapshots" / "deleted").exists()
            and not (disk / "work" / "deleted").exists()
        ),
        "it forgets what was deleted, and that only",
    )


def test_the_whole_installation_comes_up_is_failed_and_goes(tmp_path: Path) -> None:
    with Stack(tmp_path, nodes=3) as stack:
        access = tmp_path / "home" / "run" / "access.json"
        assert stat.S_IMODE(access.stat().st_mode) == 0o600
        assert set(json.loads(access.read_text())) == {"url", "user", "password", "token"}
        assert {row["rack"] for row in stack.nodes().values()} == {"rack-a", "rack-b"}

        for process in ("web", "launcher", "redis", "recovery"):
            stack.kill(process)
        stack.wait_for(lambda: len(stack.nodes("alive")) == 3, "the nodes live on")
        pids = {name: stack.node_process(name).pid for name in stack.nodes()}

        stack.kill_nodes("node-2")
        stack.wait_for(lambda: "node-2" in stack.nodes("lost"), "node-2 is lost", timeout=15)
        assert not (stack.home / "nodes" / "node-2").exists()

        # The same nodes come back after a stop, as new processes and without any incident.
        incidents = len(stack.incidents())
        stack.down()
        assert stack.processes() == []
        stack.up()
        alive = stack.nodes("alive")
        assert {"node-1", "node-3"} <= set(alive)
        assert stack.node_process("node-1").pid != pids["node-1"]
        time.sleep(6)
        assert len(stack.incidents()) == incidents


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    """`make up` in the foreground, interrupted in the middle of its start."""
    home = tmp_path / "home"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RESURGE_")}
    environment |= {"RESURGE_HOME": str(home), "RESURGE_PORT": str(free_port())}
    environment |= {"PIPELINE": "none", "PROFILE": "roomy"}
    process = subprocess.Popen(
        [sys.executable, "-m", "supervision", "up"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "redis is ready" in line:
            break
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=90)
    assert "no process is left" in said
    assert process.returncode == 0
    mark = next(
        line for line in (home / "run" / "environment").read_text().splitlines() if "INSTANCE" in line
    )
    from host.processes import processes_with_environment

    assert processes_with_environment(mark) == []
