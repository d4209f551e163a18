"""What the driver reads in ZooKeeper once, and what it reads again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import msgspec
import pytest

from coordination.paths import Paths
from coordination.session import Stored
from domain.messages import CheckpointAck
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
