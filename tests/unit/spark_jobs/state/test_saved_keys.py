"""Segments of the states of keys: of each key the newest state that is whole is found."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.state import saved_keys
from spark_jobs.state.directory_storage import DirectoryStorage
from spark_jobs.state.key_states import KeySet, encoded, put_together, taken
from spark_jobs.state.saved_keys import MERGED_FROM, Index, SavedKeys
from spark_jobs.state.sealed import DamagedError
from spark_jobs.state.state_storage import UnavailableError
from spark_jobs.state.storage_urls import open_storage
from spark_jobs.state.tables import StateTables
from tests.examples import examples
from tests.unit.spark_jobs.state.conformance.faults import WRITING, Fault, Faulty, Trouble


def state_of(versions: dict[str, int]) -> StateTables:
    state = StateTables({}, {}, {})
    state.table("rows").append(
        pa.table({"key": pa.array(versions, pa.string()), "version": pa.array(versions.values(), pa.int64())})
    )
    return state


def take(state: StateTables, keys: pa.Array) -> StateTables:
    return taken(state, KeySet(keys, lambda table: "key"))


def join(states: Sequence[StateTables]) -> StateTables:
    joined = StateTables({}, {}, {})
    for state in states:
        put_together(joined, state, {})
    return joined


def saved_in(root: Path) -> SavedKeys:
    return SavedKeys(open_storage(f"file://{root}", force=False), "t", 1, "W[0]")


def failing_in(root: Path) -> tuple[SavedKeys, Faulty]:
    storage = Faulty(open_storage(f"file://{root}", force=False))
    return SavedKeys(storage, "t", 1, "W[0]"), storage


def store(saved: SavedKeys, epoch: int, versions: dict[str, int], generation: int = 1) -> None:
    keys = pa.array(sorted(versions), pa.string())
    saved.store(generation, epoch, [(keys, encoded(state_of(versions)))])


def found(saved: SavedKeys, *keys: str) -> dict[str, int]:
    states, number = saved.find(pa.array(keys, pa.string()), saved.index, take)
    rows = [row for state in states for chunk in state.table("rows") for row in chunk.table.to_pylist()]
    assert len(rows) == number
    return {row["key"]: row["version"] for row in rows}


def test_the_newest_state_of_each_key_is_found(tmp_path: Path) -> None:
    saved = saved_in(tmp_path)
    store(saved, 5, {"a": 1, "b": 1, "c": 1})
    store(saved, 9, {"b": 2})
    store(saved, 7, {"b": 9, "c": 3})
    assert found(saved, "a", "b", "c", "never") == {"a": 1, "b": 2, "c": 3}
    assert found(saved) == {}


def test_a_node_that_was_taken_for_lost_does_not_count(tmp_path: Path) -> None:
    saved = saved_in(tmp_path)
    store(saved, 20, {"a": 1}, generation=1)
    store(saved, 12, {"a": 2}, generation=2)
    assert found(saved, "a") == {"a": 2}


def test_storing_the_same_again_changes_nothing(tmp_path: Path) -> None:
    saved = saved_in(tmp_path)
    for _ in range(2):
        store(saved, 5, {"a": 1})
    assert len(saved.segments()) == 1


@pytest.mark.parametrize("fault", WRITING)
@pytest.mark.parametrize("at", [0, 1])
def test_what_counts_as_stored_is_there(tmp_path: Path, fault: Fault, at: int) -> None:
    """at: the piece, or the index."""
    saved, storage = failing_in(tmp_path)
    storage.trouble = Trouble(fault, at)
    for _ in range(3):
        with contextlib.suppress(UnavailableError):
            store(saved, 5, {"a": 1})
            break
    else:
        pytest.fail("it was never stored")
    assert storage.trouble.met
    assert found(saved, "a") == {"a": 1}


@pytest.mark.parametrize("fault", WRITING)
@pytest.mark.parametrize("at", [0, 1])
def test_a_merge_that_is_not_stored_deletes_nothing(tmp_path: Path, fault: Fault, at: int) -> None:
    saved, storage = failing_in(tmp_path)
    expected = {f"k{epoch}": epoch for epoch in range(1, MERGED_FROM + 1)}
    for key, epoch in expected.items():
        store(saved, epoch, {key: epoch})
    listed = saved.segments()

    def joined(states: Sequence[StateTables]) -> StateTables:
        storage.trouble = Trouble(fault, at)
        return join(states)

    with pytest.raises(UnavailableError):
        saved.merge(take, joined)
    assert {one.name for one in listed} <= {one.name for one in saved.segments()}
    assert found(saved, *expected) == expected


def damage(root: Path, pattern: str) -> None:
    (path,) = root.rglob(pattern)
    path.write_bytes(path.read_bytes()[:-1] + b"?")


@pytest.mark.parametrize("kind", ["piece", "index"])
def test_what_is_damaged_is_done_without(tmp_path: Path, kind: str) -> None:
    saved = saved_in(tmp_path)
    store(saved, 5, {"a": 1, "b": 1})
    store(saved, 9, {"a": 2})
    damage(tmp_path, f"1.9.*.{kind}")
    assert found(saved, "a", "b") == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("pieces", "piece"),
    [(["../../other/1.1.0.ab.piece"], 0), (["1.1.0.ab.piece"], 1), (["1.1.0.ab.piece"], -1)],
)
def test_an_index_names_pieces_of_its_own(pieces: list[str], piece: int) -> None:
    content = Index(pa.array(["a"]), pa.array([piece], pa.int32()), pieces).encoded()
    with pytest.raises(DamagedError, match="the index names"):
        Index.decoded(content, "the index")


@settings(max_examples=examples(12), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_segments_become_one_and_say_the_same(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    dice = random.Random(seed)
    root = tmp_path_factory.mktemp("keys")
    saved, expected, most = saved_in(root), dict[str, int](), 0
    for epoch in range(1, 50):
        versions = {dice.choice("abcdefghijklmnop"): epoch for _ in range(dice.randint(1, 6))}
        store(saved, epoch, versions)
        expected |= versions
        saved.merge(take, join)
        most = max(most, len(saved.segments()))
        if not epoch % 10:
            assert found(saved, *expected) == expected
    assert most <= MERGED_FROM
    assert found(saved, *expected) == expected
    named = {piece for segment in saved.segments() for piece in saved.index(segment).pieces}
    assert {path.name for path in root.rglob("*.piece")} == named


@pytest.mark.parametrize("kind", ["piece", "index"])
@pytest.mark.parametrize("bad", [1, 5, MERGED_FROM, MERGED_FROM + 3])
def test_a_damaged_segment_does_not_end_merging(tmp_path: Path, kind: str, bad: int) -> None:
    saved, expected = saved_in(tmp_path), dict[str, int]()
    for epoch in range(1, 4 * MERGED_FROM):
        versions = {"a": epoch, f"k{epoch % 20}": epoch}
        store(saved, epoch, versions)
        expected |= versions
        if epoch == bad:
            damage(tmp_path, f"1.{bad}.*.{kind}")
        saved.merge(take, join)
        assert len(saved.segments()) < MERGED_FROM
    assert found(saved, *expected) == expected


def test_what_is_older_than_a_large_segment_does_not_become_newer(tmp_path: Path) -> None:
    saved, last = saved_in(tmp_path), MERGED_FROM + 2
    store(saved, 1, {"a": 1, "b": 1})
    store(saved, 2, {"a": 2, **{f"large{number}": 2 for number in range(5_000)}})
    for epoch in range(3, last + 1):
        store(saved, epoch, {f"k{epoch}": epoch})
    assert saved.merge(take, join) == last - 2
    assert found(saved, "a", "b", "large7") == {"a": 2, "b": 1, "large7": 2}


def test_of_a_damaged_piece_older_states_have_to_do_after_a_merge(tmp_path: Path) -> None:
    saved = saved_in(tmp_path)
    for epoch in range(1, MERGED_FROM + 1):
        store(saved, epoch, {"a": epoch, f"k{epoch}": epoch})
    damage(tmp_path, f"1.{MERGED_FROM}.*.piece")
    assert saved.merge(take, join) == MERGED_FROM
    assert found(saved, "a", "k1") == {"a": MERGED_FROM - 1, "k1": 1}


def test_pieces_of_a_damaged_index_stay_until_its_segment_is_merged(tmp_path: Path) -> None:
    saved = saved_in(tmp_path)
    store(saved, 1, {f"large{number}": 1 for number in range(5_000)})
    large = set(tmp_path.rglob("*.piece"))
    for epoch in range(2, MERGED_FROM + 1):
        store(saved, epoch, {"a": epoch})
    (index,) = tmp_path.rglob("1.1.*.index")
    whole = index.read_bytes()
    damage(tmp_path, index.name)
    assert saved.merge(take, join) == MERGED_FROM - 1
    assert large < set(tmp_path.rglob("*.piece"))
    index.write_bytes(whole)
    assert found(saved, "a", "large7") == {"a": MERGED_FROM, "large7": 1}


def test_a_merge_that_broke_off_leaves_nothing_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = saved_in(tmp_path)
    for epoch in range(1, MERGED_FROM + 1):
        store(saved, epoch, {"a": epoch, f"k{epoch}": epoch})
    with monkeypatch.context() as broken:
        broken.setattr(DirectoryStorage, "delete", lambda self, names: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            saved.merge(take, join)
    expected = {f"k{epoch}": epoch for epoch in range(1, MERGED_FROM + 1)} | {"a": MERGED_FROM}
    assert found(saved, *expected) == expected
    assert saved.merge(take, join) > 0
    assert len(saved.segments()) < MERGED_FROM
    assert found(saved, *expected) == expected


def test_a_fetch_that_meets_a_merge_looks_again(tmp_path: Path) -> None:
    """The index that was read is of a segment whose pieces are gone by now."""
    saved = saved_in(tmp_path)
    for epoch in range(1, MERGED_FROM + 1):
        store(saved, epoch, {"a": epoch, f"k{epoch}": epoch})
    known = {segment.name: saved.index(segment) for segment in saved.segments()}
    listed = saved.segments()
    saved.merge(take, join)
    late = saved_in(tmp_path)
    original, calls = late.segments, []
    late.segments = lambda: calls.append(1) or (listed if len(calls) == 1 else original())  # type: ignore[method-assign,func-returns-value]  # lists as before the merge, once
    keys = pa.array([f"k{epoch}" for epoch in range(1, MERGED_FROM + 1)], pa.string())
    states, number = late.find(keys, lambda segment: known[segment.name], take)
    assert number == len(keys)
    assert len(calls) == 2
    assert pc.sum(
        pa.concat_tables([one.table("rows").read() for one in states]).column("version")
    ).as_py() == sum(range(1, MERGED_FROM + 1))


def test_what_becomes_one_is_in_pieces_of_about_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_keys, "PIECE_KEYS", 2)
    monkeypatch.setattr(saved_keys, "encoded", list)
    parts: Any = [(pa.array([number]), number) for number in range(5)]
    join: Any = list
    made: list[Any] = [(keys.to_pylist(), states) for keys, states in saved_keys._joined(parts, join)]
    assert made == [([0, 1], [0, 1]), ([2, 3], [2, 3]), ([4], [4])]
