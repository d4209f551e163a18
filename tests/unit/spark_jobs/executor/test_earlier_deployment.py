"""A task of an earlier deployment that goes on, on a node that was frozen, changes nothing that the next
deployment of the name reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from domain.execution.job import Job
from domain.messages import CheckpointAck
from domain.topology.spec import InputSpec, OperatorSpec, ParquetSinkSpec, TopologySpec
from spark_jobs.agent.uploads import Uploader
from spark_jobs.executor.level_context import LevelContext
from spark_jobs.sinks.committed import committed_files, committed_read
from spark_jobs.sinks.parquet_sink import ParquetSink
from spark_jobs.state.checkpoint_storage import CheckpointStorage, Deployment
from spark_jobs.state.store import Manifest
from tests.unit.spark_jobs.executor.layouts import layout_of

PARTITION, EPOCH = "V[0]", 5
EARLIER, NOW = 3, 8
SPEC = TopologySpec(
    name="t",
    operators=(
        OperatorSpec(name="S", kind="source"),
        OperatorSpec(
            name="V",
            kind="union",
            inputs=(InputSpec(source="S", partitioning="one_to_one"),),
            output=True,
        ),
    ),
)


class Task:
    """What a task of one deployment writes and reads on the node."""

    def __init__(self, root: Path, deployed: int, attempt: int = 0) -> None:
        self.deployed = deployed
        layout = layout_of(SPEC, root, PARTITION, deployed=deployed, life=1)
        job = Job(lane=None, epochs=[], progress={}, attempt=attempt)
        self.level = LevelContext(1, 0, msgspec.json.encode(layout), msgspec.json.encode(job))
        self.storage = self.level.storage(PARTITION)
        self.store = self.storage.store

    def output(self, *, rows: bool = True) -> None:
        table = pa.table({"key": ["k"], "count": [self.deployed]}) if rows else None
        self.storage.write(EPOCH, table)
        assert not self.level.outputs.settle()

    def state(self, epoch: int = EPOCH) -> Manifest:
        state = self.store.open(self.store.manifest(0))
        state.values["of"] = self.deployed
        state.table("rows").append(pa.table({"x": [self.deployed]}))
        return self.store.commit(state, epoch=epoch, generation=self.deployed)

    def read(self) -> tuple[object, list[int]]:
        state = self.store.open(self.store.manifest(EPOCH))
        rows = state.table("rows").read()
        return state.values["of"], rows.column("x").to_pylist() if rows is not None else []


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_HOME", str(tmp_path / "node-1"))


@contextmanager
def driver(root: Path, deployed: int) -> Iterator[ParquetSink]:
    sink = ParquetSink(root / "outputs", "t", ParquetSinkSpec(), operators=["V"])
    sink.prepare(deployed=deployed, life=1)
    yield sink
    sink.close()


def counts(root: Path) -> list[int]:
    """What readers of the outputs see."""
    directory = root / "outputs" / "t"
    committed = committed_read(directory)
    assert committed is not None
    found = [pq.ParquetFile(file).read() for file in committed_files(directory, "V", committed)]
    return [value for table in found for value in table.column("count").to_pylist()]


@pytest.mark.parametrize("attempt", [0, 4])
@pytest.mark.parametrize("rows", [True, False])
def test_its_output_is_not_read(tmp_path: Path, *, rows: bool, attempt: int) -> None:
    earlier, now = Task(tmp_path, EARLIER, attempt and 9), Task(tmp_path, NOW, attempt)
    with driver(tmp_path, NOW) as sink:
        now.output()
        earlier.output(rows=rows)
        sink.commit(epoch=EPOCH)
        assert counts(tmp_path) == [NOW]


def test_its_output_is_not_read_where_the_next_has_none(tmp_path: Path) -> None:
    earlier, now = Task(tmp_path, EARLIER), Task(tmp_path, NOW)
    with driver(tmp_path, NOW) as sink:
        now.output(rows=False)
        earlier.output()
        sink.commit(epoch=EPOCH)
        assert counts(tmp_path) == []


def test_its_output_does_not_become_part_of_a_span(tmp_path: Path) -> None:
    earlier, now = Task(tmp_path, EARLIER), Task(tmp_path, NOW)
    with driver(tmp_path, NOW) as sink:
        now.output()
        sink.commit(epoch=600)
        earlier.output()
        sink.put_in_order(600)
        assert counts(tmp_path) == [NOW]


@pytest.mark.parametrize("attempt", [0, 4])
def test_its_state_is_not_read(tmp_path: Path, attempt: int) -> None:
    earlier, now = Task(tmp_path, EARLIER, attempt and 9), Task(tmp_path, NOW, attempt)
    now.state()
    earlier.state()
    assert now.read() == (NOW, [NOW])


def test_it_removes_no_state(tmp_path: Path) -> None:
    earlier, now = Task(tmp_path, EARLIER), Task(tmp_path, NOW)
    now.state()
    earlier.store.trim(below=EPOCH + 1)
    earlier.storage.restore(0)
    assert now.read() == (NOW, [NOW])


def test_its_buffers_are_not_read(tmp_path: Path) -> None:
    earlier, now = Task(tmp_path, EARLIER), Task(tmp_path, NOW)
    now.level.buffers.append("S[0]", [PARTITION], EPOCH, b"now")
    earlier.level.buffers.append("S[0]", [PARTITION], EPOCH, b"earlier")
    assert now.level.buffers.read("S[0]", PARTITION, EPOCH) == b"now"
    earlier.level.buffers.clear("S[0]")
    earlier.level.buffers.drop()
    assert now.level.buffers.read("S[0]", PARTITION, EPOCH) == b"now"


def test_its_snapshot_is_stored_as_its_own(tmp_path: Path) -> None:
    """The agent sends the files of the deployment that a snapshot is of, and storage keeps them apart."""
    storage, acks = CheckpointStorage(f"file://{tmp_path}/checkpoints"), list[CheckpointAck]()

    def acknowledge(topology: str, ack: CheckpointAck, directory: str) -> bool:
        acks.append(ack)
        return True

    home = tmp_path / "node-1"
    uploader = Uploader(node="node-1", node_home=home, storage=storage, acknowledge=acknowledge)
    for deployed in (NOW, EARLIER):
        task = Task(tmp_path, deployed)
        task.storage.snapshot(task.state())
    for path in sorted((home / "snapshots").glob("t/*/*.json")):
        assert uploader.upload(path)
    assert {(ack.deployed, ack.error) for ack in acks} == {(EARLIER, ""), (NOW, "")}
    assert storage.find(Deployment("t", NOW), EPOCH, PARTITION).manifest.values == {"of": NOW}


def test_a_partition_that_is_restored_removes_what_earlier_deployments_left(tmp_path: Path) -> None:
    earlier, now, later = Task(tmp_path, EARLIER), Task(tmp_path, NOW), Task(tmp_path, NOW + 1)
    for task in (earlier, later):
        task.state()
        task.level.buffers.append("S[0]", [PARTITION], EPOCH, b"rows")
    without = tmp_path / "node-1" / "state" / "t" / "V-0" / "5.manifest"  # as it was before this version
    without.parent.mkdir(parents=True, exist_ok=True)
    without.touch()
    now.storage.restore(0)
    left = {
        path.name for kind in ("state", "buffers") for path in (tmp_path / "node-1" / kind / "t").iterdir()
    }
    assert left == {str(NOW + 1)}
    assert later.read() == (NOW + 1, [NOW + 1])
