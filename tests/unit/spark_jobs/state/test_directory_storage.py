"""A directory of checkpoints whose disk goes away while processes store in it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from spark_jobs.state import directory_storage
from spark_jobs.state.directory_storage import MARK, DirectoryStorage
from spark_jobs.state.state_storage import UnavailableError


def mounted(patch: pytest.MonkeyPatch, number: int) -> None:
    """From now on the directory is on the file system with this number."""
    patch.setattr(directory_storage, "_device", lambda path: number)


def test_nothing_is_stored_below_a_disk_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, disk = tmp_path / "checkpoints", tmp_path / "disk"
    mounted(monkeypatch, 1)
    storage = DirectoryStorage(str(root))
    storage.put({}, {"t/1": b"one"})
    root.rename(disk)
    root.mkdir()
    mounted(monkeypatch, 2)
    told = rf"{root} is on another file system .* mount its disk again, .* into the file {root}/{MARK}"
    with pytest.raises(UnavailableError, match=told):
        storage.put({}, {"t/2": b"two"})
    assert list(root.iterdir()) == []
    DirectoryStorage(str(root)).put({}, {"t/2": b"two"})  # by a process that began meanwhile
    with pytest.raises(UnavailableError, match=told):
        storage.put({}, {"t/3": b"three"})
    shutil.rmtree(root)
    disk.rename(root)
    mounted(monkeypatch, 3)  # mounted again it may have another number
    storage.put({}, {"t/2": b"two"})
    assert storage.entries("t") == {"1": 3, "2": 3}


def test_a_disk_that_is_lost_for_good_is_replaced_as_the_error_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "checkpoints"
    mounted(monkeypatch, 1)
    storage = DirectoryStorage(str(root))
    storage.put({}, {"t/1": b"one"})
    shutil.rmtree(root)
    root.mkdir()
    mounted(monkeypatch, 2)
    with pytest.raises(UnavailableError) as error:
        storage.put({}, {"t/2": b"two"})
    found = re.search(r"put (\w+) into the file (\S+)", str(error.value))
    assert found is not None
    Path(found[2]).write_text(found[1] + "\n", encoding="utf-8")
    storage.put({}, {"t/2": b"two"})
    assert storage.entries("t") == {"2": 3}


def test_what_was_emptied_is_filled_again(tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    storage = DirectoryStorage(str(root))
    storage.put({}, {"t/1": b"one"})
    shutil.rmtree(root)
    storage.put({}, {"t/2": b"two"})
    assert storage.entries("t") == {"2": 3}
