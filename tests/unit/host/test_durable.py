"""Files get their names when they are on disk, and count when their names are."""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from host import durable
from host.durable import PARTIAL, DurableBatch, force_names, remove_abandoned, temporary_name, write_whole


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is asked of the operating system, in order, each with the name of the file."""
    made: list[tuple[str, str]] = []
    monkeypatch.setattr(durable, "_named", {})
    monkeypatch.setattr(durable, "_quick", {})

    def recorded(name: str) -> Callable[..., Any]:
        call = getattr(os, name)

        def record(first: Any, *rest: Any) -> Any:
            path = os.readlink(f"/proc/self/fd/{first}") if isinstance(first, int) else str(rest[0])
            made.append((name, Path(path).name))
            return call(first, *rest)

        return record

    for name in ("fdatasync", "fsync", "replace", "link"):
        monkeypatch.setattr(os, name, recorded(name))
    return made


def batch_of(root: Path, *names: str, force: bool = True) -> DurableBatch:
    batch = DurableBatch(root, force=force)
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / f".{path.name}").write_text(name)
        batch.add(path.parent / f".{path.name}", path)
    return batch


def test_contents_then_names_then_directories(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    root = tmp_path / "root"
    assert batch_of(root, "a/1", "a/2", "b/3").settle() == {}
    kinds = [kind for kind, _ in calls]
    assert kinds == ["fdatasync"] * 3 + ["replace"] * 3 + ["fsync"] * 4
    assert {name for kind, name in calls if kind == "fsync"} == {"a", "b", "root", tmp_path.name}
    assert sorted(path.name for path in root.rglob("*") if path.is_file()) == ["1", "2", "3"]


def test_directories_that_were_there_are_not_forced_again(
    tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    root = tmp_path / "root"
    batch_of(root, "t/p/epoch=1/f").settle()
    calls.clear()
    batch_of(root, "t/p/epoch=2/f").settle()
    assert {name for kind, name in calls if kind == "fsync"} == {"epoch=2", "p"}
    (root / "t").rename(root / "t.before")
    calls.clear()
    batch_of(root, "t/p/epoch=1/f").settle()
    assert {name for kind, name in calls if kind == "fsync"} == {"epoch=1", "p", "t", "root"}, "another t"


def test_without_force_only_the_names_are_given(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    assert batch_of(tmp_path, "1", "2", force=False).settle() == {}
    assert calls == [("replace", "1"), ("replace", "2")]


def test_what_cannot_be_forced_gets_no_name_and_the_others_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fdatasync

    def failing(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(".2"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", failing)
    failed = batch_of(tmp_path, "1", "2", "3").settle()
    assert {path.name: error.errno for path, error in failed.items()} == {"2": errno.EIO}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "3"]


def test_a_directory_that_cannot_be_forced_fails_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def failing(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith("/b"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", failing)
    failed = batch_of(tmp_path, "a/1", "b/2").settle()
    assert [path.name for path in failed] == ["2"]


def test_a_file_system_that_cannot_force_directories_is_used_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(descriptor: int) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", unknown)
    assert batch_of(tmp_path, "1").settle() == {}


def test_what_is_above_the_root_need_not_be_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: list[tuple[str, str]]
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    assert batch_of(tmp_path / "root", "a/1").settle() == {}
    assert {name for kind, name in calls if kind == "fsync"} == {"a", "root"}


def test_once_means_that_nothing_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "d" / "file"
    write_whole(path, b"first", root=tmp_path, once=True)
    with pytest.raises(FileExistsError):
        write_whole(path, b"second", root=tmp_path, once=True)
    assert path.read_bytes() == b"first"
    write_whole(path, b"third", root=tmp_path)
    assert path.read_bytes() == b"third"
    assert [one.name for one in path.parent.iterdir()] == ["file"]


def test_names_alone_can_be_forced(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    force_names(tmp_path / "a" / "b", root=tmp_path / "a")
    assert {name for kind, name in calls if kind == "fsync"} == {"b", "a", tmp_path.name}


def test_names_that_cannot_be_forced_are_an_error_that_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match=re.escape(str(tmp_path.parent))):
        force_names(tmp_path, root=tmp_path)


def test_a_name_that_was_there_already_is_forced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: list[tuple[str, str]]
) -> None:
    """The process that gave it may have died before it forced the directory."""
    path = tmp_path / "d" / "file"
    path.parent.mkdir()
    path.write_bytes(b"first")
    with pytest.raises(FileExistsError):
        write_whole(path, b"second", root=tmp_path, once=True)
    assert ("fsync", "d") in calls

    def failing(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        write_whole(path, b"second", root=tmp_path, once=True)


@pytest.mark.parametrize(
    ("quick", "threads"), [(1e-9, "forcing"), (3_600.0, threading.current_thread().name)]
)
def test_threads_force_where_it_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: float, threads: str
) -> None:
    monkeypatch.setattr(durable, "QUICK", quick)
    forced: list[str] = []
    monkeypatch.setattr(os, "fdatasync", lambda _: forced.append(threading.current_thread().name))
    for batch in ("a", "b"):
        batch_of(tmp_path, *(f"{batch}/{number}" for number in range(5))).settle()
        DurableBatch(tmp_path).settle()  # nothing to force says nothing
    before, after = forced[:5], forced[5:]
    assert all(name.startswith("forcing") for name in before), "not known yet"
    assert len(after) == 5
    assert all(name.startswith(threads) for name in after)


def test_what_a_killed_process_was_writing_goes_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove_abandoned(tmp_path / "missing")
    old = tmp_path / "old"
    old.write_text("")
    os.utime(old, (0, 0))
    being_written = temporary_name(tmp_path / "1")
    os.link(old, being_written)
    other = tmp_path / ".other"
    other.write_text("")
    (tmp_path / f".directory{PARTIAL}").mkdir()
    remove_abandoned(tmp_path, PARTIAL)
    assert being_written.exists(), "its content is older than its name"
    monkeypatch.setattr(durable, "ABANDONED", -1.0)
    remove_abandoned(tmp_path, PARTIAL)
    assert {path.name for path in tmp_path.iterdir()} == {"old", ".other", f".directory{PARTIAL}"}
    remove_abandoned(tmp_path)
    assert not other.exists()
