from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.eventually import eventually
from host.environment import Delay
from host.process_secrets import NEEDED, SECRETS
from host.processes import session_members
from workers.providers.base import NodeDescription, NodeWanted, ProviderError
from workers.providers.local import LocalNodeProvider, address_of, rack_of

NODE = NodeDescription(name="node-1", rack="rack-a", slots=1, capacity=50)


def create(home: Path, *, seed: int = 0) -> LocalNodeProvider:
    # No ZooKeeper listens there: an agent runs without one and keeps trying.
    environment = {**os.environ, "RESURGE_HOME": str(home), "RESURGE_ZOOKEEPER": "127.0.0.1:1"}
    return LocalNodeProvider(
        home=home, delay=Delay(120, 360), seed=seed, environment=environment, cpu_cap=False
    )


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[LocalNodeProvider]:
    made = create(tmp_path)
    yield made
    for node in made.nodes():
        made.fail(node.description.name)
        made.release(node.description.name)


def wanted(number: int, *, requested_at: float = 1000.0, replacement: bool = True) -> NodeWanted:
    node = NodeDescription(name=f"node-{number + 1}", rack="rack-a", slots=1, capacity=50)
    return NodeWanted(
        request=f"incident-1/node-{number}", requested_at=requested_at, replacement=replacement, node=node
    )


def test_delays_follow_the_distribution_and_the_key(tmp_path: Path) -> None:
    provider = create(tmp_path)
    delays = [provider.due(wanted(n)) - 1000 for n in range(200)]
    assert all(120 <= delay <= 360 for delay in delays)
    assert len({round(delay, 3) for delay in delays}) == 200
    assert 220 < sum(delays) / len(delays) < 260
    again = create(tmp_path).due(wanted(7))
    assert again - 1000 == delays[7]
    assert create(tmp_path, seed=1).due(wanted(7)) != again
    assert provider.due(wanted(7, replacement=False)) == 1000, "a first node is not delayed"


def test_a_replacement_is_started_when_it_is_due(provider: LocalNodeProvider) -> None:
    now = time.time()
    due = provider.acquire(wanted(0, requested_at=now))
    assert due == provider.due(wanted(0, requested_at=now))
    assert now + 120 <= due <= now + 360
    assert provider.nodes() == []
    assert provider.acquire(wanted(0, requested_at=now - 360)) is None
    (started,) = provider.nodes()
    assert (started.description, started.alive) == (NODE, True)
    assert provider.acquire(wanted(0, requested_at=now - 360)) is None
    assert provider.nodes() == [started]


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("node-1", "127.0.1.1"),
        ("node-254", "127.0.1.254"),
        ("node-255", "127.0.2.1"),
        ("spare-3", "127.0.1.3"),
    ],
)
def test_addresses(name: str, address: str) -> None:
    assert address_of(name) == address


@pytest.mark.parametrize("name", ["node", "node-0", "node-99999", "Node-1", "../node-1"])
def test_names_without_an_address(name: str) -> None:
    with pytest.raises(ProviderError, match="node"):
        address_of(name)


def test_racks_alternate() -> None:
    assert [rack_of(number) for number in range(1, 5)] == ["rack-a", "rack-b", "rack-a", "rack-b"]


def test_a_node_lives_is_found_again_and_dies_as_a_whole(provider: LocalNodeProvider, tmp_path: Path) -> None:
    node = provider.launch(NODE)
    assert node.alive
    assert node.address == "127.0.1.1"
    assert provider.launch(NODE).pid == node.pid, "launching twice starts nothing"
    [adopted] = create(tmp_path).nodes()
    assert (adopted.pid, adopted.alive, adopted.description) == (node.pid, True, NODE)

    assert create(tmp_path).fail("node-1"), "any process of the installation can fail it"
    assert session_members(node.pid) == []
    assert not provider.nodes()[0].alive
    assert not provider.fail("node-1"), "it is dead already"


def test_a_release_keeps_the_disk_or_clears_it(provider: LocalNodeProvider, tmp_path: Path) -> None:
    provider.launch(NODE)
    disk = tmp_path / "nodes" / "node-1"
    eventually((disk / "agent.lock").exists, "the agent's lock", 20)
    (disk / "state").mkdir(exist_ok=True)
    (disk / "state" / "kept").touch()
    provider.release("node-1", keep_disk=True)
    assert not provider.nodes()[0].alive
    assert (disk / "state" / "kept").exists()
    provider.launch(provider.nodes()[0].description)
    assert provider.nodes()[0].alive
    provider.release("node-1")
    assert provider.nodes() == []
    assert not disk.exists()


def test_failing_an_unknown_node(provider: LocalNodeProvider) -> None:
    with pytest.raises(ProviderError, match="node-9"):
        provider.fail("node-9")


def test_description_names_the_delay(provider: LocalNodeProvider) -> None:
    assert "uniform:120:360" in provider.describe()


def test_a_node_gets_its_secrets_only(provider: LocalNodeProvider, tmp_path: Path) -> None:
    secrets = dict.fromkeys(SECRETS, "a-secret-of-this-installation")
    variables = {**os.environ, **secrets, "RESURGE_ZOOKEEPER": "127.0.0.1:1"}
    given = LocalNodeProvider(home=tmp_path, delay=Delay(0, 0), environment=variables, cpu_cap=False)
    node = given.launch(NODE)
    environment = Path(f"/proc/{node.pid}/environ")
    eventually(lambda: b"RESURGE_ZOOKEEPER=" in environment.read_bytes(), "the environment of the agent")
    names = {entry.partition(b"=")[0].decode() for entry in environment.read_bytes().split(b"\0")}
    assert SECRETS & names == NEEDED["node"]


def test_a_node_closes_its_home_to_other_users(provider: LocalNodeProvider, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    provider.launch(NODE)
    disk = tmp_path / "nodes" / "node-1"
    eventually((disk / "agent.lock").exists, "the agent's lock", 20)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path, disk, disk / "agent.lock")] == [
        0o700,
        0o700,
        0o600,
    ]
