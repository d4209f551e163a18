"""Output buffers: files that can be written again, removed and lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.state.buffers import OutputBuffers


@pytest.fixture
def buffers(tmp_path: Path) -> OutputBuffers:
    made = OutputBuffers(tmp_path, "t", 1)
    for target in ("B[0]", "B[1]"):
        made.append("A[0]", [target], 7, target.encode())
    made.append("C[0]", ["B[0]"], 7, b"")
    return made


def test_each_target_has_its_own_queue(buffers: OutputBuffers) -> None:
    assert buffers.read("A[0]", "B[1]", 7) == b"B[1]"
    assert buffers.read("C[0]", "B[0]", 7) == b""
    with pytest.raises(FileNotFoundError):
        buffers.read("A[0]", "B[0]", 8)


def test_repeating_an_epoch_changes_nothing(buffers: OutputBuffers) -> None:
    buffers.append("A[0]", ["B[0]"], 7, b"B[0]")
    assert [path.name for path in (buffers.directory / "A-0" / "B-0").iterdir()] == ["7.arrow"]


@pytest.mark.parametrize("content", [b"", b"B", None])
def test_what_is_damaged_is_as_if_it_were_not_there(buffers: OutputBuffers, content: bytes | None) -> None:
    """The epoch is computed again."""
    path = buffers.directory / "A-0" / "B-0" / "7.arrow"
    other = (path.parent.parent / "B-1" / "7.arrow").read_bytes()
    path.write_bytes(path.read_bytes()[:-1] + other[-2:-1] if content is None else content)
    with pytest.raises(OSError, match="not as it was written"):
        buffers.read("A[0]", "B[0]", 7)


def test_who_goes_back_forgets_its_own_only(buffers: OutputBuffers) -> None:
    buffers.clear("A[0]")
    with pytest.raises(FileNotFoundError):
        buffers.read("A[0]", "B[0]", 7)
    assert buffers.read("C[0]", "B[0]", 7) == b""


def test_dropping_leaves_nothing(buffers: OutputBuffers, tmp_path: Path) -> None:
    buffers.drop()
    assert list(tmp_path.rglob("*.arrow")) == []
    buffers.drop()


SHARED = ["B[0]", "B[1]", "D[0]"]


def test_what_several_targets_are_to_get_is_one_file(buffers: OutputBuffers) -> None:
    buffers.append("A[0]", SHARED, 8, b"rows")
    assert [buffers.read("A[0]", target, 8) for target in SHARED] == [b"rows"] * 3
    assert buffers.alike("A[0]", SHARED, 8) == [SHARED]
    assert len({path.stat().st_ino for path in buffers.directory.rglob("8.arrow")}) == 1
    assert buffers.alike("A[0]", ["B[0]", "B[1]"], 7) == [["B[0]"], ["B[1]"]]
    assert buffers.alike("A[0]", ["B[0]", "E[0]"], 8) == [["B[0]"], ["E[0]"]]


def test_one_that_gets_it_anew_leaves_the_others_theirs(buffers: OutputBuffers) -> None:
    buffers.append("A[0]", SHARED, 8, b"rows")
    buffers.append("A[0]", ["B[1]"], 8, b"rows of another attempt")
    assert buffers.read("A[0]", "D[0]", 8) == b"rows"
    assert buffers.alike("A[0]", SHARED, 8) == [["B[0]", "D[0]"], ["B[1]"]]
    buffers.append("A[0]", SHARED, 8, b"rows again")
    assert buffers.alike("A[0]", SHARED, 8) == [SHARED]
    names = sorted(path.name for path in (buffers.directory / "A-0").rglob("*") if path.is_file())
    assert names == ["7.arrow", "7.arrow", *["8.arrow"] * 3], "nothing else is left"


def test_a_file_system_without_second_names_has_copies(
    buffers: OutputBuffers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(target))

    monkeypatch.setattr(Path, "hardlink_to", refused)
    buffers.append("A[0]", SHARED, 8, b"rows")
    assert [buffers.read("A[0]", target, 8) for target in SHARED] == [b"rows"] * 3
    assert buffers.alike("A[0]", SHARED, 8) == [["B[0]"], ["B[1]"], ["D[0]"]]
