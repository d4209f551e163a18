"""Requests that tasks leave for the keeper of their node."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from domain.execution.job import KeeperStatus
from domain.key_saving.breaker import Breaker
from domain.topology import OperatorSpec, TopologySpec
from spark_jobs.state.key_requests import REQUEST, KeyDesk, KeyRequest, KeyWork, WaitingRequest, desks
from spark_jobs.state.sealed import DamagedError, seal
from spark_jobs.state.store import Manifest, StateStore
from spark_jobs.state.tables import StateTables


def left(root: Path, *epochs: int, counts: bool = True) -> KeyDesk:
    desk, store = KeyDesk(root, "t", 1), StateStore(root / "state")
    for epoch in epochs:
        state = StateTables({}, {}, {})
        state.table("rows").append(pa.table({"key": [f"k{epoch}"]}))
        manifest = store.commit(state, epoch=epoch, generation=epoch % 2)
        desk.leave(store, "W[0]", manifest, [f"k{epoch}"], counts=counts)
    return desk


def test_the_oldest_comes_first_and_an_earlier_generation_before(tmp_path: Path) -> None:
    desk = left(tmp_path, 10, 2, 9, 11)
    ((_, paths),) = desk.waiting().items()
    read = [WaitingRequest.read(path).request for path in paths]
    assert [(one.manifest.generation, one.manifest.epoch) for one in read] == [
        (0, 2),
        (0, 10),
        (1, 9),
        (1, 11),
    ]
    assert [one.keys for one in read] == [["k2"], ["k10"], ["k9"], ["k11"]]


def test_what_was_given_up_is_never_stored(tmp_path: Path) -> None:
    """A job that applied epochs 4 to 6 was given up after the driver had heard of epoch 4."""
    desk = left(tmp_path, 4, 5, 6, counts=False)
    assert desk.waiting() == {}
    desk.settle("W[0]", 4)
    ((path,),) = desk.waiting().values()
    assert WaitingRequest.read(path).request.keys == ["k4"]
    desk.settle("W[0]", 9)
    assert list(desk.waiting().values()) == [[path]]


def test_how_requests_are_stored_is_said_again_when_it_is_another(tmp_path: Path) -> None:
    desk = KeyDesk(tmp_path, "t", 1)
    spec = TopologySpec(name="t", operators=(OperatorSpec(name="S", kind="source", output=True),))
    work = KeyWork(spec=spec, checkpoints="file:///a", modules=[], force=False)
    desk.prepare(work)
    version = desk.work_version()
    desk.prepare(work)
    assert desk.work_version() == version
    other = msgspec.structs.replace(work, checkpoints="file:///b")
    desk.prepare(other)
    assert desk.work() == other
    assert desk.work_version() != version


def test_it_has_its_state_when_the_partition_has_none(tmp_path: Path) -> None:
    desk = left(tmp_path, 5)
    StateStore(tmp_path / "state").remove()
    ((path,),) = desk.waiting().values()
    waiting = WaitingRequest.read(path)
    table = waiting.store().open(waiting.request.manifest).table("rows").read()
    assert table is not None
    assert table.column("key").to_pylist() == ["k5"]
    waiting.remove()
    assert desk.waiting() == {}


def test_what_was_not_left_whole_does_not_wait(tmp_path: Path) -> None:
    desk = left(tmp_path, 5)
    ((path,),) = desk.waiting().values()
    path.rename(path.with_name(f".{path.name}"))
    assert desk.waiting() == {}
    desk.settle("W[0]", 5)
    assert list(path.parent.iterdir()) == [], "its links would keep the files of the state"


@pytest.mark.parametrize("content", [b"", b"{", b"null", seal(b'{"partition": 3}')])
def test_a_damaged_request_is_told(tmp_path: Path, content: bytes) -> None:
    desk = left(tmp_path, 5)
    ((path,),) = desk.waiting().values()
    (path / REQUEST).write_bytes(content)
    with pytest.raises(DamagedError, match=r"request\.json is damaged"):
        WaitingRequest.read(path)


def test_a_request_reads_no_file_of_others(tmp_path: Path) -> None:
    desk = left(tmp_path, 5)
    ((path,),) = desk.waiting().values()
    request = WaitingRequest.read(path).request
    (entry,) = request.manifest.files()
    stolen = msgspec.structs.replace(entry, name="../../../secret")
    other = Manifest(epoch=5, generation=1, tables={"rows": [stolen]})
    body = msgspec.json.encode(KeyRequest(partition="W[0]", manifest=other, keys=["a"]))
    (path / REQUEST).write_bytes(seal(body))
    with pytest.raises(DamagedError, match="which is no state file"):
        WaitingRequest.read(path)


def test_what_is_told_is_read_again_and_nothing_is_no_fault(tmp_path: Path) -> None:
    desk = left(tmp_path, 5)
    assert desk.status() == KeeperStatus(waiting=1)
    assert desk.fetching() == Breaker()
    desk.tell_status(KeeperStatus(stored=7, error="full"))
    desk.tell_fetching(Breaker(failures=3, until=9.0))
    assert desk.status() == KeeperStatus(stored=7, error="full", waiting=1, fetching=Breaker(3, 9.0))
    (desk.directory / "status.json").write_bytes(b"?")
    assert desk.status().stored == 0
    assert list(desks(tmp_path)) == []  # nothing says how to store it
