"""State files that stay open: read once, let go in time, and never taken for one that has replaced them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.state import opened
from spark_jobs.state.chunks import ChunkEntry
from spark_jobs.state.opened import IDLE, OpenedFiles


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Files:
    """Of one process, with the checks that were made."""

    def __init__(self, directory: Path) -> None:
        self.clock = Clock()
        self.opened = OpenedFiles(self.clock)
        self.checked: list[int] = []
        self._directory = directory

    def write(self, name: str, numbers: list[int]) -> None:
        table = pa.table({"n": pa.array(numbers, pa.int64())})
        temporary = self._directory / ".new"
        with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        temporary.rename(self._directory / name)

    def read(self, name: str, checksum: str = "c") -> list[int]:
        entry = ChunkEntry(name=name, rows=0, bytes=0, note={}, checksum=checksum)
        table = self.opened.table(self._directory / name, entry, self._check)
        numbers: list[int] = table.column("n").to_pylist()
        return numbers

    def _check(self, content: memoryview) -> None:
        self.check(content)

    def check(self, content: memoryview) -> None:
        self.checked.append(content.nbytes)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def mapped(directory: Path) -> set[str]:
    """Names of files below it that this process maps, also deleted ones."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split(str(directory))[1].split()[0].strip("/") for line in lines if str(directory) in line}


def test_a_file_is_opened_once(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write("a", [1, 2])
    assert files.read("a") == [1, 2]
    monkeypatch.setattr(pa, "memory_map", None)  # would raise
    assert files.read("a") == [1, 2]
    assert len(files.checked) == 1
    assert mapped(tmp_path) == {"a"}


def test_what_has_replaced_a_file_is_opened_and_checked_anew(files: Files) -> None:
    files.write("a", [1, 2])
    files.read("a")
    files.write("a", [3, 4])  # as many bytes
    assert files.read("a") == [3, 4]
    assert len(files.checked) == 2


def test_another_checksum_is_checked(files: Files) -> None:
    """A state that was undone may have had the same name, time and size."""
    files.write("a", [1])
    files.read("a")
    files.read("a", "d")
    assert len(files.checked) == 2


def test_a_file_that_is_missing_or_fails_its_check_is_not_kept(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write("a", [1])
    files.read("a")
    (tmp_path / "a").unlink()
    with pytest.raises(FileNotFoundError):
        files.read("a")
    files.write("b", [2])

    def damaged(content: memoryview) -> None:
        raise ValueError("damaged")

    monkeypatch.setattr(files, "check", damaged)
    for _ in range(2):
        with pytest.raises(ValueError, match="damaged"):
            files.read("b")
    assert len(files.opened) == 0


def test_what_is_not_read_is_let_go_and_a_deleted_file_leaves_the_disk(files: Files, tmp_path: Path) -> None:
    for name in "ab":
        files.write(name, [1])
        files.read(name)
    (tmp_path / "a").unlink()
    assert mapped(tmp_path) == {"a", "b"}
    for _ in range(7):
        files.clock.now += IDLE / 4
        files.read("b")
    assert mapped(tmp_path) == {"b"}
    assert len(files.checked) == 2
    files.clock.now += 2 * IDLE
    files.write("c", [1])
    files.read("c")
    assert mapped(tmp_path) == {"c"}
    assert files.read("b") == [1]
    assert len(files.checked) == 3, "it was checked before"


def test_the_one_not_read_for_the_longest_gives_way(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened, "KEPT", 2)
    for name in "abc":
        files.write(name, [ord(name)])
    for name in "abac":
        files.read(name)
    assert len(files.opened) == 2
    opens: list[str] = []
    really = pa.memory_map

    def noted(path: str) -> Any:
        opens.append(Path(path).name)
        return really(path)

    monkeypatch.setattr(pa, "memory_map", noted)
    for name in "acb":
        files.read(name)
    assert opens == ["b"]


def test_checks_are_forgotten_in_time(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened, "MOST_CHECKED", 2)
    for name in "abc":
        files.write(name, [1])
        files.read(name)
    files.clock.now += 3 * IDLE
    files.read("c")
    files.read("a")
    assert len(files.checked) == 4
