"""Whatever bytes another process writes, decoding gives a value within its bounds or one kind of error."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.execution.epoch_machine import JOBS_A_LIFE
from domain.messages import (
    CheckpointAck,
    CheckpointReport,
    Control,
    DeployedSpec,
    DriverStatus,
    ExecutorsSeen,
    LatestCheckpoint,
    NodeRegistration,
    NodeStats,
    Plan,
    ProblemReport,
    SparkApplication,
    UnreadableValueError,
    decode,
    decode_telemetry,
    encode,
)
from tests.unit.hostile import HOSTILE, altered

REGISTRATION = NodeRegistration(
    id="node-1", address="127.0.1.1", rack="r", slots=2, capacity=100, pid=7, session="a1", registered_at=9.0
)
STATS = NodeStats(
    id="node-1",
    at=9.0,
    session="a1",
    cpu_percent=1.0,
    memory_bytes=1,
    disk_free_bytes=1,
    cpu_seconds={"t": 1.0},
)
DRIVER = DriverStatus(
    topology="t", pid=1, session="a", generation=1, state="running", head=1, committed=1, checkpoint=0, at=1.0
)
VALUES: list[msgspec.Struct] = [
    REGISTRATION,
    STATS,
    DRIVER,
    DeployedSpec(name="t", version=1, spec={}),
    Plan(generation=1, kind="deploy", assignment={"O[0]": "node-1"}),
    ExecutorsSeen(pid=1),
    SparkApplication(id="app-1", host="127.0.0.1", port=4040, memory="768m", pid=1, ended=["7"]),
    Control(),
    LatestCheckpoint(checkpoint=1, generation=1, completed_at=1.0, size_bytes=1),
]


def test_attempts_are_larger_than_counts() -> None:
    """They are a thousand million for each driver that a topology had."""
    ack = CheckpointAck(
        partition="A[0]", checkpoint=4, generation=1, attempt=7 * JOBS_A_LIFE + 3, node="node-1",
        size_bytes=1, uploaded_bytes=1, files=1, duration=0.1,
    )  # fmt: skip
    assert decode(encode(ack), CheckpointAck) == ack


@pytest.mark.parametrize(
    "wrong", [{"id": "../app"}, {"id": ""}, {"memory": "768m -version"}, {"memory": "0m"}, {"port": 70_000}]
)
def test_of_an_application_nothing_gets_into_a_command_or_a_path(wrong: dict[str, Any]) -> None:
    good = {"id": "app-1", "host": "127.0.0.1", "port": 4040, "memory": "768m", "pid": 1}
    decode(msgspec.json.encode(good), SparkApplication)
    with pytest.raises(UnreadableValueError):
        decode(msgspec.json.encode({**good, **wrong}), SparkApplication)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_what_is_written_is_read(value: msgspec.Struct) -> None:
    assert decode(encode(value), type(value)) == value


@pytest.mark.parametrize(
    ("value", "field", "bad"),
    [
        (STATS, "at", 1e30),
        (STATS, "at", -1.0),
        (STATS, "memory_bytes", 2**63),
        (STATS, "cpu_seconds", {"t": -1.0}),
        (REGISTRATION, "slots", -1),
        (REGISTRATION, "slots", 0),
        (REGISTRATION, "id", "a/b"),
        (REGISTRATION, "id", "n" * 65),
        (REGISTRATION, "rack", "r" * 65),
        (REGISTRATION, "session", "s" * 33),
        (REGISTRATION, "lifeline", 65_536),
        (DRIVER, "generation", 2**31),
        (DRIVER, "committed", -1),
    ],
)
def test_a_value_out_of_bounds_names_its_field(value: msgspec.Struct, field: str, bad: Any) -> None:
    data = json.dumps({**msgspec.to_builtins(value), field: bad}).encode()
    with pytest.raises(UnreadableValueError, match=rf"\b{field}\b"):
        decode(data, type(value))


@pytest.mark.parametrize("data", HOSTILE)
def test_hostile_bytes_are_one_kind_of_error(data: bytes) -> None:
    refused = 0
    for value in VALUES:
        try:
            assert isinstance(decode(data, type(value)), Control), "which takes any object"
        except UnreadableValueError:
            refused += 1
    assert refused >= len(VALUES) - 1
    with pytest.raises(UnreadableValueError):
        decode_telemetry(data)


def test_no_text_holds_what_no_database_can() -> None:
    for text, read in (
        ("a\0b", "a\N{REPLACEMENT CHARACTER}b"),
        ("a\\u0000b", "a\\u0000b"),
        ("\\\0", "\\\ufffd"),
    ):
        report = decode_telemetry(encode(ProblemReport(topology="t", where="w", what=text)))
        assert isinstance(report, ProblemReport)
        assert report.what == read


@given(st.data())
def test_whatever_is_read_fits(data: st.DataObject) -> None:
    value = data.draw(st.sampled_from(VALUES))
    raw = data.draw(st.one_of(st.binary(max_size=60), altered(encode(value))))
    try:
        read = decode(raw, type(value))
    except UnreadableValueError:
        return
    for name, one in msgspec.to_builtins(read).items():
        if isinstance(one, float):
            assert math.isfinite(one)
        if name in ("at", "registered_at", "completed_at"):
            datetime.fromtimestamp(one, tz=UTC)
        assert not isinstance(one, int) or abs(one) < 2**63


@given(st.one_of(st.binary(max_size=60), altered(encode(DRIVER))))
def test_whatever_comes_as_telemetry_is_read_or_refused(raw: bytes) -> None:
    try:
        message = decode_telemetry(raw)
    except UnreadableValueError:
        return
    assert isinstance(message, DriverStatus | CheckpointReport | ProblemReport)
