"""Partitions are put back to a checkpoint whose topology had others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from domain.execution.job import Division, EpochPlan, Layout
from domain.topology import Topology
from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec
from spark_jobs.executor.division import SCRATCH
from spark_jobs.executor.exchange import key_buckets
from spark_jobs.executor.restore import RestoreError, bring_partition, restore_partition, whole_in_storage
from spark_jobs.state.checkpoint_storage import CheckpointStorage, StoredManifest
from spark_jobs.state.records import CheckpointRecord
from spark_jobs.state.store import EMPTY, StateStore

CHECKPOINT, DEPLOYED = 10, 3
KEYS = [f"k{number}" for number in range(40)]


def spec(partitions: int) -> TopologySpec:
    source = OperatorSpec(name="S", kind="source", parallelism=2)
    streams = (InputSpec(source="S"),)
    return TopologySpec(
        name="t",
        operators=(source, OperatorSpec(name="D", kind="distinct", inputs=streams, parallelism=partitions)),
    )


class Place:
    """A storage with a checkpoint of two partitions, and one node."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = f"file://{root}/checkpoints"
        self.storage = CheckpointStorage(self.url)
        at = key_buckets(pa.chunked_array([KEYS]), 2).tolist()
        for index in range(2):
            self.store_state(index, [key for key, where in zip(KEYS, at, strict=True) if where == index])

    def store_state(self, index: int, keys: list[str]) -> None:
        store = StateStore(self.root / f"before-{index}")
        state = store.open(EMPTY)
        state.keyed("seen", ["key"]).put(pa.table({"key": keys}))
        manifest = store.commit(state, epoch=CHECKPOINT, generation=1)
        self.storage.store(
            StoredManifest(
                topology="t", deployed=DEPLOYED, partition=f"D[{index}]", checkpoint=CHECKPOINT, generation=1,
                attempt=0, manifest=msgspec.Raw(msgspec.json.encode(manifest)),
            ),
            [(entry, store.directory / entry.name) for entry in manifest.files()],
        )  # fmt: skip

    def store_record(self) -> None:
        plan = EpochPlan(epoch=CHECKPOINT, slices={}, watermark=0, previous_watermark=0, at=0.0)
        self.storage.store_record(
            CheckpointRecord(
                topology="t", deployed=DEPLOYED, checkpoint=CHECKPOINT, version=1,
                spec=Topology(spec(2)).to_data(), origin_us=0, plan=plan,
            )
        )  # fmt: skip

    def layout(self, partitions: int) -> Layout:
        return Layout(
            spec=spec(partitions), generation=9, deployed=DEPLOYED, nodes=["n"], slots={}, levels={},
            outputs="", checkpoints=self.url, readers={},
            division=Division(checkpoint=CHECKPOINT, operators=["D"]),
        )  # fmt: skip

    def node(self, index: int) -> StateStore:
        return StateStore(self.root / "node" / f"D-{index}")

    def keys(self, index: int) -> list[str]:
        store = self.node(index)
        rows = store.open(store.manifest(CHECKPOINT)).keyed("seen", ["key"]).read()
        return sorted(rows.column("key").to_pylist()) if rows is not None else []


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    found = Place(tmp_path)
    with closing(found.storage):
        yield found


@pytest.mark.parametrize("partitions", [1, 2, 3, 4])
def test_each_partition_has_its_keys(place: Place, partitions: int) -> None:
    place.store_record()
    left = place.node(0).directory / SCRATCH / "of a process that was killed"
    left.mkdir(parents=True)
    at = key_buckets(pa.chunked_array([KEYS]), partitions).tolist()
    for index in range(partitions):
        assert whole_in_storage(place.node(index), place.layout(partitions), f"D[{index}]", CHECKPOINT)
        for _ in range(2):
            restore_partition(place.node(index), place.layout(partitions), f"D[{index}]", CHECKPOINT)
            wanted = sorted(key for key, where in zip(KEYS, at, strict=True) if where == index)
            assert place.keys(index) == wanted
        assert [one for one in place.node(index).directory.iterdir() if one.is_dir()] == []


def test_what_a_later_checkpoint_has_is_not_divided(place: Place) -> None:
    place.store_record()
    store = place.node(2)
    manifest = store.commit(store.open(EMPTY), epoch=CHECKPOINT + 5, generation=9)
    place.storage.store(
        StoredManifest(
            topology="t", deployed=DEPLOYED, partition="D[2]", checkpoint=CHECKPOINT + 5, generation=9,
            attempt=0, manifest=msgspec.Raw(msgspec.json.encode(manifest)),
        ),
        [],
    )  # fmt: skip
    bring_partition(store, place.layout(3), "D[2]", CHECKPOINT + 5)
    assert store.manifest(CHECKPOINT + 5) == manifest


def test_without_a_record_or_with_a_damaged_state_it_is_told(place: Place) -> None:
    with pytest.raises(RestoreError, match=r"records/10.json is missing") as told:
        restore_partition(place.node(0), place.layout(3), "D[0]", CHECKPOINT)
    assert told.value.damaged
    assert not whole_in_storage(place.node(0), place.layout(3), "D[0]", CHECKPOINT)
    place.store_record()
    (file,) = (place.root / "checkpoints/t/3/files/D-1").iterdir()
    file.chmod(0o600)
    file.write_bytes(file.read_bytes()[:-1])
    assert not whole_in_storage(place.node(0), place.layout(3), "D[0]", CHECKPOINT)
    with pytest.raises(RestoreError, match=r"checkpoint 10 of D.0. cannot be restored") as told:
        restore_partition(place.node(0), place.layout(3), "D[0]", CHECKPOINT)
    assert told.value.damaged
