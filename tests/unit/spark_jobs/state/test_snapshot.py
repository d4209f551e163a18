"""A partition leaves its snapshot while an agent removes empty directories."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from domain.messages import Snapshot
from spark_jobs.state.sealed import unseal
from spark_jobs.state.snapshot import ATTEMPTS, leave_snapshot
from spark_jobs.state.store import Manifest


def removing_directories(monkeypatch: pytest.MonkeyPatch, times: int) -> list[Path]:
    """Simulates the agent: removes the directory after it was made and before the file is in it, this many
    times."""
    removed: list[Path] = []
    write = Path.write_bytes

    def write_bytes(path: Path, data: bytes) -> int:
        if len(removed) < times:
            removed.append(path.parent)
            path.parent.rmdir()
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    return removed


def test_the_agent_removes_the_directory_before_the_file_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = removing_directories(monkeypatch, times=3)
    path = leave_snapshot(tmp_path, "t", "A[0]", 2, Manifest(epoch=7, generation=2))
    snapshot = msgspec.json.decode(unseal(path.read_bytes(), str(path)), type=Snapshot)
    assert (snapshot.partition, snapshot.checkpoint, snapshot.generation) == ("A[0]", 7, 2)
    assert len(removed) == 3
    assert list(path.parent.iterdir()) == [path]


def test_the_agent_removes_a_directory_that_was_there_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = leave_snapshot(tmp_path, "t", "A[0]", 2, Manifest(epoch=7, generation=2))
    first.unlink()
    looked: list[Path] = []

    def is_dir(path: Path) -> bool:
        looked.append(path)
        path.rmdir()
        return False

    with monkeypatch.context() as patched:
        patched.setattr(Path, "is_dir", is_dir)
        path = leave_snapshot(tmp_path, "t", "B[0]", 2, Manifest(epoch=7, generation=2))
    assert looked == [path.parent]
    assert path.exists()


def test_it_gives_up_when_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed = removing_directories(monkeypatch, times=1000)
    with pytest.raises(FileNotFoundError):
        leave_snapshot(tmp_path, "t", "A[0]", 2, Manifest(epoch=7, generation=2))
    assert len(removed) == ATTEMPTS
