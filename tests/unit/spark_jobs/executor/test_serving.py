"""What a partition buffered is sent once to each node that has targets of it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from domain.execution.job import Job, TaskReport
from domain.execution.lanes import Lane
from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec
from spark_jobs.executor.exchange import decode_table
from spark_jobs.executor.task import REPORT, Level
from tests.unit.spark_jobs.executor.layouts import epochs_to, layout_of

TARGETS = ["A[0]", "B[0]", "C[0]"]
SPEC = TopologySpec(
    name="t",
    operators=(
        OperatorSpec(name="S", kind="source"),
        *(
            OperatorSpec(name=name[0], kind="latest", inputs=(InputSpec(source="S"),), output=True)
            for name in TARGETS
        ),
    ),
)
LAST = 3


@pytest.fixture
def level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Level:
    """Of the source, whose node serves epochs 1 to 3 to A and B on node-2, and to C on node-3."""
    monkeypatch.setenv("NODE_HOME", str(tmp_path / "node-1"))
    layout = layout_of(SPEC, tmp_path, *TARGETS)
    slots = {**layout.slots, "A[0]": 1, "B[0]": 1, "C[0]": 2}
    layout = msgspec.structs.replace(layout, nodes=["node-1", "node-2", "node-3"], slots=slots)
    serves = {"node-1": {"S[0]": [(1, LAST, TARGETS)]}}
    job = Job(
        lane=Lane(1, LAST, dict.fromkeys(TARGETS, 0), serves=serves),
        epochs=epochs_to(LAST),
        progress={"S[0]": LAST, **dict.fromkeys(TARGETS, 0)},
    )
    return Level(0, 0, msgspec.json.encode(layout), msgspec.json.encode(job))


def sent(level: Level) -> tuple[list[tuple[int, list[str], int, bytes]], TaskReport]:
    """Slot, targets, epoch and content of each message, and the report of the task."""
    messages, reports = list[tuple[int, list[str], int, bytes]](), list[TaskReport]()
    for slot, (at, targets, _, epoch, payload) in level.run():
        if at == REPORT:
            reports.append(msgspec.json.decode(payload, type=TaskReport))
        else:
            messages.append((slot, targets, epoch, payload))
    (report,) = reports
    return messages, report


def test_targets_on_one_node_get_what_is_the_same_in_one_message(level: Level) -> None:
    for epoch in range(1, LAST + 1):
        level.buffers.append("S[0]", TARGETS, epoch, b"%d" % epoch)
    messages, report = sent(level)
    for epoch in range(1, LAST + 1):
        content = b"%d" % epoch
        mine = [one for one in messages if one[2] == epoch]
        assert mine == [(1, ["A[0]", "B[0]"], epoch, content), (2, ["C[0]"], epoch, content)]
    assert not report.unbuffered


def test_what_differs_is_sent_to_each(level: Level) -> None:
    for epoch in range(1, LAST + 1):
        level.buffers.append("S[0]", ["B[0]"], epoch, b"b")
        level.buffers.append("S[0]", ["A[0]", "C[0]"], epoch, b"a")
    messages, report = sent(level)
    expected = [(1, ["A[0]"], b"a"), (1, ["B[0]"], b"b"), (2, ["C[0]"], b"a")]
    for epoch in range(1, LAST + 1):
        mine = [(slot, targets, payload) for slot, targets, at, payload in messages if at == epoch]
        assert sorted(mine) == expected
    assert not report.unbuffered


def test_who_lacks_an_epoch_gets_none_after_it(level: Level) -> None:
    """It is told, and computed again; the others get theirs."""
    for epoch in (1, 3):
        level.buffers.append("S[0]", TARGETS, epoch, b"%d" % epoch)
    level.buffers.append("S[0]", ["A[0]", "C[0]"], 2, b"2")
    messages, report = sent(level)
    assert [epoch for _, targets, epoch, _ in messages if "B[0]" in targets] == [1]
    for other in ("A[0]", "C[0]"):
        assert [epoch for _, targets, epoch, _ in messages if other in targets] == [1, 2, 3]
    assert report.unbuffered == ["S[0]"]


@pytest.mark.parametrize("buffering", [False, True])
def test_messages_are_compressed_while_outputs_are_buffered(level: Level, *, buffering: bool) -> None:
    """A follows and B does not."""
    rows = pa.table({"key": [f"word {number % 997}" for number in range(20_000)]})
    level.job = msgspec.structs.replace(level.job, buffering=buffering)
    lane = Lane(LAST + 1, LAST + 1, {"S[0]": LAST, "A[0]": LAST})
    level.emit(lane, "S[0]", LAST + 1, rows)
    ((slot, (_, targets, _, _, payload)),) = level.out
    assert (slot, targets) == (1, ["A[0]"])
    assert (len(payload) < rows.nbytes / 3) is buffering
    assert decode_table(payload) == rows
    if buffering:
        assert level.buffers.read("S[0]", "B[0]", LAST + 1) == payload
