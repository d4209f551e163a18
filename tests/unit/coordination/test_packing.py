"""Values of many partitions fit into a znode, and what does not fit is refused before a server sees it."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import msgspec
import pytest
import yaml

from coordination.packing import LARGEST_PACKED, LARGEST_REQUEST, LONG, packed, unpacked
from coordination.session import CoordinationRefusedError, Session
from domain.messages import (
    LARGEST_VALUE,
    DriverStatus,
    Plan,
    ShadowStatus,
    UnreadableValueError,
    decode,
    encode,
)
from domain.topology.spec import MAX_PARTITIONS
from host.environment import ROOT
from supervision.zookeeper import HEAP_MB

OPERATORS, NODES = 40, 400
NAMES = [f"{'Counts' * 9}{index % OPERATORS}[{index // OPERATORS}]" for index in range(MAX_PARTITIONS)]
HOMES = {name: f"node-{zlib.crc32(name.encode()) % NODES}.rack-7.example" for name in NAMES}
PLAN = Plan(generation=1, kind="recover", deployed=1, assignment=HOMES, restore=NAMES)
STATUS = DriverStatus(
    topology="t", pid=1, session="1", generation=1, state="degraded", head=1, committed=1, checkpoint=1,
    at=1.0, behind=NAMES,
    shadows={name: ShadowStatus(node=node, lacks=1, ready=True) for name, node in HOMES.items()},
)  # fmt: skip


@pytest.fixture
def session() -> Iterator[Session]:
    with closing(Session("127.0.0.1:1", 4.0)) as one:
        yield one


@pytest.mark.parametrize("value", [PLAN, STATUS])
def test_what_is_said_of_the_most_partitions_fits(value: Any) -> None:
    data = packed(encode(value))
    assert len(data) < LARGEST_PACKED / 2
    assert decode(unpacked(data), type(value)) == value


def test_what_is_said_of_many_partitions_fits_into_the_memory_of_the_server() -> None:
    few = dict(list(STATUS.shadows.items())[: MAX_PARTITIONS // 4])
    data = packed(encode(msgspec.structs.replace(STATUS, shadows=few, behind=list(few))))
    assert 2 * 500 * len(data) < HEAP_MB << 20


def test_a_short_value_stays_as_it_is() -> None:
    value = encode(Plan(generation=1, kind="deploy", assignment={"A[0]": "node-1"}))
    assert packed(value) == value
    assert unpacked(value) == value


@pytest.mark.parametrize("data", [b"x", b"xyz", packed(b"{" * LONG)[:-9], packed(b" " * (LARGEST_VALUE + 9))])
def test_what_cannot_be_unpacked_is_no_value(data: bytes) -> None:
    with pytest.raises(UnreadableValueError):
        decode(unpacked(data), Plan)


def test_a_value_that_no_server_takes_is_refused_before_it_is_sent(session: Session) -> None:
    plan = Plan(generation=1, kind="deploy", assignment={}, reason=os.urandom(LARGEST_PACKED).hex())
    with pytest.raises(CoordinationRefusedError, match=r"value of /a/plan has \d+ bytes.*fewer partitions"):
        session.put("/a/plan", plan)
    with pytest.raises(CoordinationRefusedError):
        session.claim("/a/plan", plan)


def test_the_server_in_a_container_takes_what_the_embedded_one_takes() -> None:
    services = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text(encoding="utf-8"))["services"]
    flags = services["zookeeper"]["environment"]["SERVER_JVMFLAGS"]
    assert f"-Djute.maxbuffer={LARGEST_REQUEST}" in flags.split()
