"""Where the disk is full, what could be written of a file takes no room, and the next try succeeds."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from domain.execution.job import KeeperStatus
from spark_jobs.state.buffers import OutputBuffers
from spark_jobs.state.chunks import Chunk, TableState
from spark_jobs.state.key_requests import KeyDesk
from spark_jobs.state.snapshot import leave_snapshot
from spark_jobs.state.store import EMPTY, Manifest, StateStore, StateVersion


def commit(home: Path) -> None:
    store = StateStore(home)
    state = store.open(EMPTY)
    state.tables["t"] = TableState([Chunk({}, table=pa.table({"x": [1, 2]}))])
    store.commit(state, epoch=1, generation=1)


def receive(home: Path) -> None:
    version = StateVersion(manifest=Manifest(epoch=1, generation=1), files={"1.1.t.0.arrow": b"content"})
    StateStore(home).receive(version)


WRITERS: dict[str, Callable[[Path], object]] = {
    "a state": commit,
    "a manifest": lambda home: StateStore(home).install(Manifest(epoch=1, generation=1)),
    "a state of another node": receive,
    "a buffer": lambda home: OutputBuffers(home, "t", 1).append("A[0]", ["B[0]", "B[1]"], 1, b"content"),
    "a snapshot": lambda home: leave_snapshot(home, "t", "A[0]", 2, Manifest(epoch=7, generation=2)),
    "a request to store states of keys": lambda home: KeyDesk(home, "t", 1).leave(
        StateStore(home), "W[0]", Manifest(epoch=7, generation=2), ["k"], counts=True
    ),
    "the status of a keeper": lambda home: KeyDesk(home, "t", 1).tell_status(KeeperStatus()),
}


def full(path: Path, content: bytes) -> int:
    with path.open("wb") as file:
        file.write(bytes(content)[:5])
    raise OSError(errno.ENOSPC, "No space left on device", str(path))


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_what_was_begun_takes_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], object]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full)
        with pytest.raises(OSError, match="No space left"):
            write(tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert list(tmp_path.rglob(".*")) == []
    write(tmp_path)
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert left
    assert not [path for path in left if path.name.startswith(".")]
