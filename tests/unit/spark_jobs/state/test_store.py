"""State on a node's disk: a repeated computation gives the same files, or the newest attempt counts if they
differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from host import durable
from spark_jobs.state import store as state_store
from spark_jobs.state.store import (
    EMPTY,
    Manifest,
    StateMissingError,
    StateStore,
    StateVersion,
)


def committed(store: StateStore, *, epoch: int, rows: list[int]) -> Manifest:
    state = store.open(EMPTY)
    state.table("rows").append(pa.table({"x": rows}))
    return store.commit(state, epoch=epoch, generation=1)


def rows_of(store: StateStore, epoch: int) -> list[Any]:
    table = store.open(store.manifest(epoch)).table("rows").read()
    assert table is not None
    return list(table.column("x").to_pylist())


def test_the_same_again_is_the_same_files_and_another_attempt_has_its_own(tmp_path: Path) -> None:
    again = StateStore(tmp_path / "deterministic")
    assert committed(again, epoch=1, rows=[1]) == committed(again, epoch=1, rows=[1])
    assert len(list(again.directory.iterdir())) == 2
    first = committed(StateStore(tmp_path / "other", 1), epoch=1, rows=[1])
    second = committed(StateStore(tmp_path / "other", 2), epoch=1, rows=[2])
    assert {file.name for file in first.files()}.isdisjoint(file.name for file in second.files())


def test_a_file_that_this_process_wrote_is_not_checked_until_it_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = StateStore(tmp_path)
    (entry,) = committed(store, epoch=1, rows=[1]).files()
    path = tmp_path / entry.name
    with monkeypatch.context() as patched:
        patched.setattr(state_store, "checksum_of", lambda content: pytest.fail("it is checked"))
        assert rows_of(store, 1) == [1]
    damaged = path.read_bytes().replace(b"\1\0\0\0\0\0\0\0", b"\2\0\0\0\0\0\0\0")
    path.unlink()
    path.write_bytes(damaged)
    with pytest.raises(StateMissingError, match="is damaged"):
        rows_of(store, 1)


@pytest.mark.parametrize("numbers", [pa.int8(), pa.int32()])
def test_dictionaries_of_several_partitions_become_one(tmp_path: Path, numbers: pa.DataType) -> None:
    store, epochs = StateStore(tmp_path), [["a", "b"], ["b", "c"]]
    manifest, expected = EMPTY, []
    for epoch, prefixes in enumerate(epochs, start=1):
        values = [[f"{prefix}{at}" for at in range(100)] for prefix in prefixes]
        parts = [
            pa.array(one).dictionary_encode().cast(pa.dictionary(numbers, pa.string())) for one in values
        ]
        state = store.open(manifest)
        state.table("rows").append(pa.table({"x": pa.chunked_array(parts)}))
        manifest = store.commit(state, epoch=epoch, generation=1)
        expected += [*values[0], *values[1]]
    assert rows_of(store, 2) == expected


@pytest.mark.parametrize("value", [1.0, True, "1", None])
def test_a_note_that_is_no_whole_number_is_refused(tmp_path: Path, value: Any) -> None:
    store = StateStore(tmp_path)
    state = store.open(EMPTY)
    state.table("rows").append(pa.table({"x": [1]}), {"low": value})
    with pytest.raises(
        ValueError, match=r"the note \{'low': .*\} of a chunk of the state must have whole numbers"
    ):
        store.commit(state, epoch=1, generation=1)


def test_what_an_attempt_that_was_given_up_writes_late_is_never_read(tmp_path: Path) -> None:
    given_up, now = StateStore(tmp_path, 7), StateStore(tmp_path, 8)
    committed(now, epoch=5, rows=[8])
    committed(given_up, epoch=5, rows=[7])
    committed(given_up, epoch=6, rows=[7])
    assert rows_of(now, 5) == [8]
    committed(now, epoch=6, rows=[8])
    assert rows_of(now, 6) == [8]
    assert [path.name for path in tmp_path.glob("6.*.manifest")] == ["6.8.manifest"]


def test_an_attempt_that_was_given_up_takes_nothing_back_from_later_ones(tmp_path: Path) -> None:
    given_up, now = StateStore(tmp_path, 7), StateStore(tmp_path, 8)
    committed(given_up, epoch=5, rows=[7])
    committed(now, epoch=6, rows=[8])
    given_up.rollback(3)
    assert rows_of(now, 6) == [8]
    with pytest.raises(StateMissingError):
        now.manifest(5)
    now.rollback(3)
    with pytest.raises(StateMissingError):
        now.manifest(6)


def test_trimming_keeps_what_is_named_and_nothing_else(tmp_path: Path) -> None:
    store = StateStore(tmp_path, 3)
    for epoch in range(1, 6):
        committed(store, epoch=epoch, rows=[epoch])
    store.trim(below=4, keep=[2])
    assert [rows_of(store, epoch) for epoch in (2, 4, 5)] == [[2], [4], [5]]
    assert len(list(tmp_path.glob("*.arrow"))) == len(list(tmp_path.glob("*.manifest"))) == 3


def test_trimming_removes_what_killed_tasks_were_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = StateStore(tmp_path)
    committed(store, epoch=1, rows=[1])
    left = {tmp_path / ".1.1.rows.0.arrow.123", tmp_path / ".1.manifest.123"}
    for path in left:
        path.write_bytes(b"x")
    store.trim(below=1)
    assert left < set(tmp_path.iterdir()), "they may be of a task that runs"
    monkeypatch.setattr(durable, "ABANDONED", -1.0)
    store.trim(below=1)
    assert {path.name for path in tmp_path.iterdir()} == {"1.manifest", "1.1.rows.0.arrow"}


def test_attempts_of_an_earlier_deployment_go_with_the_first_trim(tmp_path: Path) -> None:
    """The operator of the earlier version was not deterministic; the present one is."""
    committed(StateStore(tmp_path, 3), epoch=9, rows=[3])
    store = StateStore(tmp_path)
    committed(store, epoch=1, rows=[1])
    store.trim(below=1)
    assert rows_of(store, 1) == [1]
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".arrow", ".manifest"]
    committed(StateStore(tmp_path, 4), epoch=9, rows=[4])
    store.rollback(1)
    assert [path.name for path in tmp_path.glob("*.manifest")] == ["1.manifest"]


def growing(store: StateStore, *, last: int) -> None:
    """Each epoch adds a row in a file of its own; the files of earlier epochs stay named."""
    state = store.open(EMPTY)
    for epoch in range(1, last + 1):
        state.table("rows").append(pa.table({"x": [epoch]}))
        state = store.open(store.commit(state, epoch=epoch, generation=1))


def test_states_go_to_another_node_with_the_files_that_it_lacks(tmp_path: Path) -> None:
    old, new = StateStore(tmp_path / "old"), StateStore(tmp_path / "new")
    growing(old, last=5)
    for version in old.versions(after=0, last=2):
        new.receive(version)
    sent = list(old.versions(after=2, last=5))
    assert [len(version.files) for version in sent] == [1, 1, 1], "what is known is not sent again"
    for version in [*sent, *sent]:
        new.receive(version)
    assert [rows_of(new, epoch) for epoch in range(1, 6)] == [list(range(1, e + 1)) for e in range(1, 6)]
    assert sorted(path.name for path in new.directory.iterdir()) == sorted(
        path.name for path in old.directory.iterdir()
    )


def test_a_state_that_is_not_there_cannot_be_sent(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    growing(store, last=3)
    store.trim(below=2)
    with pytest.raises(StateMissingError):
        list(store.versions(after=1, last=3))
    with pytest.raises(StateMissingError):
        list(store.versions(after=2, last=4))


def test_states_that_come_from_another_node_are_of_the_attempt_that_brings_them(tmp_path: Path) -> None:
    old, new = StateStore(tmp_path / "old", 8), StateStore(tmp_path / "new", 8)
    committed(StateStore(tmp_path / "old", 5), epoch=1, rows=[5])
    committed(StateStore(tmp_path / "new", 6), epoch=1, rows=[6])
    for version in old.versions(after=0, last=1):
        new.receive(version)
    assert rows_of(new, 1) == [5]
    assert [path.name for path in new.directory.glob("*.manifest")] == ["1.8.manifest"]


def test_a_branch_begins_with_the_files_of_an_epoch_and_changes_none_of_them(tmp_path: Path) -> None:
    exact, branch = StateStore(tmp_path / "exact"), StateStore(tmp_path / "branch")
    manifest = committed(exact, epoch=4, rows=[1])
    committed(branch, epoch=9, rows=[7])
    branch.begin_from(exact, 4)
    assert rows_of(branch, 4) == [1]
    with pytest.raises(StateMissingError):
        branch.manifest(9)
    (entry,) = manifest.files()
    assert (branch.directory / entry.name).samefile(exact.directory / entry.name)
    state = branch.open(branch.manifest(4))
    state.table("rows").append(pa.table({"x": [2]}))
    branch.commit(state, epoch=5, generation=1)
    branch.trim(below=5)
    assert (rows_of(branch, 5), rows_of(exact, 4)) == ([1, 2], [1])
    branch.begin_from(exact, 0)
    assert branch.manifest(0) == EMPTY
    branch.remove()
    assert not branch.directory.exists()


def test_a_branch_of_a_state_that_is_not_there_is_refused(tmp_path: Path) -> None:
    exact, branch = StateStore(tmp_path / "exact"), StateStore(tmp_path / "branch")
    with pytest.raises(StateMissingError, match="no state of epoch 3"):
        branch.begin_from(exact, 3)
    (entry,) = committed(exact, epoch=4, rows=[1]).files()
    (exact.directory / entry.name).unlink()
    with pytest.raises(StateMissingError, match="is missing"):
        branch.begin_from(exact, 4)


@pytest.mark.parametrize("cut", [False, True])
def test_a_file_that_is_not_as_it_was_written_is_neither_read_nor_sent(tmp_path: Path, *, cut: bool) -> None:
    store, value = StateStore(tmp_path), 0x1234567890ABCDEF
    (entry,) = committed(store, epoch=1, rows=[value]).files()
    path = tmp_path / entry.name
    content, old = path.read_bytes(), value.to_bytes(8, "little")
    assert content.count(old) == 1
    path.write_bytes(content[:-1] if cut else content.replace(old, (value + 1).to_bytes(8, "little")))
    for act in (
        lambda: rows_of(store, 1),
        lambda: list(store.versions(after=0, last=1)),
        lambda: store.version(1),
    ):
        with pytest.raises(StateMissingError, match="is damaged"):
            act()
    assert store.bring(entry, lambda target: target.write_bytes(content)), "it is fetched"
    assert rows_of(store, 1) == [value]


@pytest.mark.parametrize("name", ["", ".hidden", "../other", "a/b", "a\\b", "a\nb", "a" * 181])
def test_no_state_that_is_handed_over_names_a_file_outside_of_its_directory(
    tmp_path: Path, name: str
) -> None:
    (entry,) = committed(StateStore(tmp_path / "old"), epoch=1, rows=[1]).files()
    manifest = Manifest(epoch=1, generation=1, tables={"rows": [msgspec.structs.replace(entry, name=name)]})
    new = StateStore(tmp_path / "new")
    with pytest.raises(StateMissingError, match="which is no state file"):
        new.receive(StateVersion(manifest=manifest, files={name: b"x"}))
    assert not new.used


def test_trimming_removes_a_manifest_that_is_damaged(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    for epoch in (1, 2):
        committed(store, epoch=epoch, rows=[epoch])
    (tmp_path / "1.manifest").write_bytes(b"{")
    store.trim(below=1)
    assert [path.name for path in tmp_path.glob("*.manifest")] == ["2.manifest"]
    assert rows_of(store, 2) == [2]


def test_a_file_that_cannot_be_read_is_fetched(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    (entry,) = committed(store, epoch=1, rows=[1]).files()
    path = tmp_path / entry.name
    content = path.read_bytes()
    path.unlink()
    path.symlink_to(path)
    assert store.bring(entry, lambda target: target.write_bytes(content))
    assert rows_of(store, 1) == [1]
