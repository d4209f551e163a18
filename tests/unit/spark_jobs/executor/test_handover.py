"""The two stages of a handover: what goes wrong with one partition is told, and does not touch the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from domain.execution.job import Handover, Layout, TaskReport, decode_report
from domain.topology.spec import OperatorSpec, TopologySpec
from spark_jobs.executor.handover import RECEIVE, SEND, HandoverTask
from spark_jobs.executor.task import REPORT
from spark_jobs.state.key_requests import KeyDesk, WaitingRequest
from spark_jobs.state.node_home import STATE, deployment_home
from spark_jobs.state.store import EMPTY, StateStore

NODES = ("node-1", "node-2")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Three source partitions that go from node-1 to node-2."""
    spec = TopologySpec(name="t", operators=(OperatorSpec(name="S", kind="source", parallelism=3),))
    return Layout(
        spec=spec,
        generation=2,
        nodes=list(NODES),
        slots={f"S[{index}]": 1 for index in range(3)},
        levels={f"S[{index}]": 0 for index in range(3)},
        outputs=str(tmp_path / "outputs"),
        checkpoints=f"file://{tmp_path}/checkpoints",
        readers={},
    )


def store(tmp_path: Path, node: str, index: int) -> StateStore:
    return StateStore(deployment_home(tmp_path / node, STATE, "t", 0) / f"S-{index}")


def write(tmp_path: Path, index: int, epochs: int) -> None:
    one = store(tmp_path, "node-1", index)
    for epoch in range(1, epochs + 1):
        state = one.open(EMPTY)
        state.table("rows").append(pa.table({"x": [index, epoch]}))
        one.commit(state, epoch=epoch, generation=1)


def run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    layout: Layout,
    handover: Handover,
    *,
    on: Sequence[str] = NODES,
) -> list[TaskReport]:
    """Both stages on both nodes; `on`: where Spark runs the tasks of each slot."""
    encoded = msgspec.json.encode(layout), msgspec.json.encode(handover)
    arriving: dict[int, list[Any]] = {0: [], 1: []}
    for stage in (SEND, RECEIVE):
        leaving: dict[int, list[Any]] = {0: [], 1: []}
        for slot, node in enumerate(on):
            monkeypatch.setenv("NODE_ID", node)
            monkeypatch.setenv("NODE_HOME", str(tmp_path / node))
            records = iter([(slot, None), *((slot, message) for message in arriving[slot])])
            for target, message in HandoverTask(stage, *encoded)(slot, records):
                leaving[target].append(message)
        arriving = leaving
    return [decode_report(m[-1]) for messages in arriving.values() for m in messages if m[0] == REPORT]


def handover(last: int, *, since: int | None = 0) -> Handover:
    names = [f"S[{index}]" for index in range(3)]
    return Handover(sources=dict.fromkeys(names, 0), epochs=dict.fromkeys(names, last), since=since)


def test_all_states_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: Layout) -> None:
    for index in range(3):
        write(tmp_path, index, epochs=2)
    reports = run(tmp_path, monkeypatch, layout, handover(2))
    assert [(one.node, {p: r.error for p, r in one.partitions.items()}) for one in reports] == [
        ("node-1", {}),
        ("node-2", dict.fromkeys(("S[0]", "S[1]", "S[2]"), "")),
    ]
    for index in range(3):
        assert store(tmp_path, "node-2", index).manifest(2) == store(tmp_path, "node-1", index).manifest(2)


def test_one_that_lacks_a_state_is_told_and_the_others_arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    write(tmp_path, 0, epochs=2)
    write(tmp_path, 1, epochs=1)
    write(tmp_path, 2, epochs=2)
    (named,) = store(tmp_path, "node-1", 2).manifest(1).files()
    (store(tmp_path, "node-1", 2).directory / named.name).unlink()
    (_, report) = run(tmp_path, monkeypatch, layout, handover(2))
    errors = {partition: one.error for partition, one in report.partitions.items()}
    assert errors.pop("S[0]") == ""
    assert "epoch 2 was not handed over" in errors["S[1]"]
    assert "epoch 1 was not handed over" in errors["S[2]"]


def test_a_checkpoint_that_cannot_be_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    for index in range(3):
        write(tmp_path, index, epochs=3)
    (_, report) = run(tmp_path, monkeypatch, layout, handover(3, since=1))
    for partition, one in report.partitions.items():
        assert f"checkpoint 1 of {partition} cannot be read" in one.error


@pytest.mark.parametrize("whole", [True, False])
def test_keys_are_stored_from_the_old_node_where_the_guarantee_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: Layout, *, whole: bool
) -> None:
    """Those of the epochs that count, also where the state itself cannot be sent."""
    write(tmp_path, 0, epochs=3)
    old, desk = store(tmp_path, "node-1", 0), KeyDesk(tmp_path / "node-1", "t", 0)
    for epoch in (1, 2, 3):
        desk.leave(old, "S[0]", old.manifest(epoch), ["a"], counts=False)
    if not whole:
        (named,) = old.manifest(2).files()
        (old.directory / named.name).unlink()
    run(tmp_path, monkeypatch, layout, handover(2, since=None))
    requests = [WaitingRequest.read(path).request for path in desk.waiting()["S-0"]]
    assert [(one.partition, one.manifest.epoch, one.keys) for one in requests] == [
        ("S[0]", 1, ["a"]), ("S[0]", 2, ["a"]),
    ]  # fmt: skip
    assert len(list((desk.directory / "S-0").iterdir())) == 2
    assert store(tmp_path, "node-2", 0).used is whole


@pytest.mark.parametrize("on", [["node-9", "node-2"], ["node-1", "node-9"]])
def test_a_task_on_another_node_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: Layout, on: list[str]
) -> None:
    for index in range(3):
        write(tmp_path, index, epochs=2)
    reports = run(tmp_path, monkeypatch, layout, handover(2), on=on)
    assert any(one.misplaced for one in reports) or on[0] == "node-9"
    arrived = {p for one in reports for p, r in one.partitions.items() if not r.error}
    assert not arrived
    assert not (tmp_path / "node-9").exists()
