"""What the driver reads in ZooKeeper once, and what it reads again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import msgspec
import pytest

from coordination.paths import Paths
from coordination.session import Stored
from domain.messages import CheckpointAck, NodeRegistration
from spark_jobs.driver import topology_channel
from spark_jobs.driver.topology_channel import TopologyChannel


class Znodes:
    """A session in memory. read: the paths that were read."""

    connected = True
    session = "1"

    def __init__(self) -> None:
        self.values: dict[str, msgspec.Struct] = {}
        self.read: list[str] = []

    def children(self, path: str, *, watch: bool = False) -> list[str]:
        return sorted(one.removeprefix(f"{path}/") for one in self.values if one.startswith(f"{path}/"))

    def get_many(
        self, wanted: Sequence[tuple[str, type]], *, watch: bool = False
    ) -> list[Stored[Any] | None]:
        self.read += [path for path, _ in wanted]
        return [Stored(self.values[path], "") if path in self.values else None for path, _ in wanted]

    def close(self) -> None: ...


@pytest.fixture
def znodes() -> Znodes:
    return Znodes()


@pytest.fixture
def channel(znodes: Znodes) -> Iterator[TopologyChannel]:
    with closing(TopologyChannel(topology="t", hosts="127.0.0.1:1", session_timeout=1.0)) as made:
        made.close()
        session: Any = znodes
        made._session = session
        yield made


@pytest.mark.parametrize("error", ["", "the storage did not answer"])
def test_an_acknowledgement_is_read_again_only_if_it_tells_an_error(
    channel: TopologyChannel, znodes: Znodes, error: str
) -> None:
    """A checkpoint that is tried again may have the same number, generation and attempt."""
    path = f"{Paths.acks('t', 7)}/A-0.1"
    ack = CheckpointAck(
        partition="A[0]", checkpoint=7, generation=2, node="n1", size_bytes=1, uploaded_bytes=1, files=1,
        duration=0.1, deployed=1, error=error,
    )  # fmt: skip
    znodes.values[path] = ack
    assert channel.acknowledgements(7, 1, job=(2, 0)) == [ack]
    znodes.values[path] = msgspec.structs.replace(ack, error="")
    assert [one.error for one in channel.acknowledgements(7, 1, job=(2, 0))] == [""]
    assert znodes.read == [path] * (2 if error else 1)


def registered(address: str, session: str) -> NodeRegistration:
    return NodeRegistration(
        id="node-1", address=address, rack="a", slots=1, capacity=100, pid=1, session=session,
        registered_at=1.0,
    )  # fmt: skip


@pytest.mark.parametrize("missed", [False, True], ids=["seen", "missed"])
def test_a_node_that_is_back_is_where_it_says(
    channel: TopologyChannel, znodes: Znodes, monkeypatch: pytest.MonkeyPatch, missed: bool
) -> None:
    """missed: its new registration takes the place of the old one before the driver looks again."""
    path = Paths.node("node-1")
    znodes.values[path] = registered("10.0.0.5", "a")
    channel.refresh(force=True)
    if missed:
        monkeypatch.setattr(topology_channel, "ADDRESSES_INTERVAL", 0.0)
    else:
        del znodes.values[path]
        channel.refresh(force=True)
    znodes.values[path] = registered("10.0.0.9", "b")
    channel.refresh(force=True)
    assert (channel.addresses, channel.alive) == ({"node-1": "10.0.0.9"}, frozenset({"node-1"}))
    assert channel.gone_addresses() == {"10.0.0.5"}
    znodes.values[Paths.node("node-2")] = registered("10.0.0.5", "c")
    channel.refresh(force=True)
    assert channel.gone_addresses() == frozenset(), "another node has this address"


def test_addresses_of_nodes_that_stay_are_not_read_each_time(
    channel: TopologyChannel, znodes: Znodes
) -> None:
    path = Paths.node("node-1")
    znodes.values[path] = registered("10.0.0.5", "a")
    for _ in range(3):
        channel.refresh(force=True)
    assert znodes.read.count(path) == 1
