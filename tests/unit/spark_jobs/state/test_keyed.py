"""A table by key is a dictionary, whatever is merged meanwhile, and few bytes of it are written anew."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.state import keyed, keyed_merging
from spark_jobs.state.chunks import Chunk, TableState
from spark_jobs.state.keyed import KeyedTable
from spark_jobs.state.keyed_merging import note_divided, overlaps
from spark_jobs.state.keyed_rows import GONE, HASH
from spark_jobs.state.store import EMPTY, Manifest, StateMissingError, StateStore
from spark_jobs.state.tables import StateTables
from tests.examples import examples

Row = tuple[str | None, int | None]


def table(rows: Sequence[tuple[str | None, int | None, int]]) -> pa.Table:
    names, numbers, values = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            "name": pa.array(names, pa.string()),
            "number": pa.array(numbers, pa.int64()),
            "value": pa.array(values, pa.int64()),
        }
    )


SMALL = {"TIER": 2, "TIER_BYTES": 300, "MERGED_MOST": 4_000, "RANGE": 1_500, "SWEPT_FROM": 1_200}
IN_PARTS = {"TIER_BYTES": 3_000, "MERGED_MOST": 200_000}
"""With parts that are smaller than deltas of a tier."""


class Epochs:
    """A state on disk, one epoch after the other."""

    def __init__(self, directory: Path) -> None:
        self.store = StateStore(directory)
        self.manifest: Manifest = EMPTY
        self.written: list[int] = []

    def apply(self, changes: Sequence[tuple[str | None, int | None, int | None]]) -> KeyedTable:
        """Rows are set, those without a value removed, one after the other; then the epoch ends."""
        state = self.store.open(self.manifest)
        held = state.keyed("t", ["name", "number"])
        for name, number, value in changes:
            if value is None:
                held.remove(table([(name, number, 0)]))
            else:
                held.put(table([(name, number, value)]))
        before = {entry.name for entry in self.manifest.files()}
        self.manifest = self.store.commit(state, epoch=self.manifest.epoch + 1, generation=1)
        new = [entry.bytes for entry in self.manifest.files() if entry.name not in before]
        self.written.append(sum(new))
        return self.open()

    def change(self, rows: Sequence[tuple[str, int, int | None]]) -> KeyedTable:
        """All rows at once, one for each key."""
        state = self.store.open(self.manifest)
        held = state.keyed("t", ["name", "number"])
        held.put(table([(name, number, value) for name, number, value in rows if value is not None]))
        held.remove(table([(name, number, 0) for name, number, value in rows if value is None]))
        self.manifest = self.store.commit(state, epoch=self.manifest.epoch + 1, generation=1)
        return self.open()

    def open(self) -> KeyedTable:
        return self.store.open(self.manifest).keyed("t", ["name", "number"])

    @property
    def notes(self) -> list[dict[str, int]]:
        return [entry.note for entry in self.manifest.tables.get("t", [])]


def contents(held: KeyedTable) -> dict[Row, int]:
    rows = held.read()
    if rows is None:
        return {}
    assert not {HASH, GONE}.intersection(rows.column_names)
    found = [((row["name"], row["number"]), row["value"]) for row in rows.to_pylist()]
    assert len(dict(found)) == len(found), "a key is there twice"
    return dict(found)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Everything is merged and swept early."""
    with monkeypatch.context() as patched:
        for name, value in SMALL.items():
            patched.setattr(keyed_merging, name, value)
        yield


NAMES = st.sampled_from([None, "", "a", "b", "ab", "\0", "ä", "long " * 9])
CHANGES = st.lists(
    st.tuples(NAMES, st.sampled_from([None, 0, 1, 2**40, -7]), st.sampled_from([None, 1, 2, 3])), max_size=9
)


@settings(max_examples=examples(200), deadline=None)
@given(epochs=st.lists(CHANGES, min_size=1, max_size=30), seed=st.integers(0, 2**32))
def test_it_is_a_dictionary(tmp_path_factory: pytest.TempPathFactory, epochs: list[Any], seed: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        for name, value in SMALL.items():
            patched.setattr(keyed_merging, name, value)
        world, expected = Epochs(tmp_path_factory.mktemp("state")), dict[Row, int]()
        dice = random.Random(seed)
        for changes in epochs:
            held = world.apply(changes)
            for name, number, value in changes:
                expected.pop((name, number), None)
                if value is not None:
                    expected[name, number] = value
            assert contents(held) == expected
            asked = [
                (dice.choice([None, "", "a", "b", "ab", "x"]), dice.choice([None, 0, 1, 5]), 0)
                for _ in range(5)
            ]
            found = held.find(table(asked))
            assert found.values("value") == [expected.get((name, number)) for name, number, _ in asked]
            assert found.missing.tolist() == [(name, number) not in expected for name, number, _ in asked]


def many(
    rows: int, epochs: int, changed: int, directory: Path, *, gone: int = 0
) -> tuple[Epochs, dict[Row, int]]:
    """`rows` keys, of which `changed` change in each epoch, and `gone` go."""
    world, dice = Epochs(directory), random.Random(5)
    expected: dict[Row, int] = {}
    for epoch in range(epochs):
        keys = range(rows) if not epoch else dice.sample(range(rows), changed)
        batch = table([(f"key {key}", key, epoch) for key in keys])
        removed = table([(f"key {key}", key, 0) for key in (dice.sample(range(rows), gone) if epoch else ())])
        state = world.store.open(world.manifest)
        held = state.keyed("t", ["name", "number"])
        held.put(batch)
        held.remove(removed)
        before = {entry.name for entry in world.manifest.files()}
        world.manifest = world.store.commit(state, epoch=epoch + 1, generation=1)
        world.written.append(sum(one.bytes for one in world.manifest.files() if one.name not in before))
        expected.update({(row["name"], row["number"]): epoch for row in batch.to_pylist()})
        for row in removed.to_pylist():
            expected.pop((row["name"], row["number"]), None)
    return world, expected


SIZES = st.sampled_from([1, 5, 20, 60, 150, 300])
"""Keys that an epoch changes; between the least and the greatest there are five tiers."""
KEYS, HOT = 400, 20


@settings(max_examples=examples(100), deadline=None)
@given(
    sizes=st.lists(SIZES, min_size=25, max_size=60),
    part=st.sampled_from([1_500, 6_000]),
    swept_from=st.sampled_from([SMALL["SWEPT_FROM"], 10_000_000]),
    seed=st.integers(0, 2**32),
)
def test_whatever_the_sizes_of_deltas(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], part: int, swept_from: int, seed: int
) -> None:
    """Merges in parts, sweeps, and large deltas that come in between."""
    dice = random.Random(seed)
    with pytest.MonkeyPatch.context() as patched:
        for name, value in {**SMALL, **IN_PARTS, "RANGE": part, "SWEPT_FROM": swept_from}.items():
            patched.setattr(keyed_merging, name, value)
        world, expected = Epochs(tmp_path_factory.mktemp("state")), dict[Row, int]()
        for number, size in enumerate(sizes):
            hot = size < HOT and dice.random() < 0.5
            keys = dice.sample(range(HOT if hot else KEYS), size)
            gone = set(dice.sample(keys, size // 3))
            held = world.change([(f"key {key}", key, None if key in gone else number) for key in keys])
            for key in keys:
                expected[f"key {key}", key] = number
                if key in gone:
                    del expected[f"key {key}", key]
            asked = dice.sample(range(KEYS), 40)
            found = held.find(table([(f"key {key}", key, 0) for key in asked]))
            assert found.values("value") == [expected.get((f"key {key}", key)) for key in asked]
            if number % 5 == 0:
                assert contents(held) == expected
        assert contents(world.open()) == expected
        assert contents(KeyedTable(divided(world), ["name", "number"])) == expected


def divided(world: Epochs) -> TableState:
    """A table of all its chunks, first those with the rows of one half of the keys, then the others."""
    table = TableState([])
    for half in (0, 1):
        for chunk in world.store.open(world.manifest).table("t"):
            mine = [(number or 0) % 2 == half for number in chunk.table.column("number").to_pylist()]
            table.append(chunk.table.filter(pa.array(mine)), note_divided(chunk.note))
    return table


def test_parts_overlap_where_their_hashes_do() -> None:
    parts = [(bits, part) for bits in range(5) for part in range(1 << bits)]
    for (own, its), (bits, part) in itertools.product(parts, parts):
        hashes = set(range(its << (4 - own), (its + 1) << (4 - own)))
        asked = range(part << (4 - bits), (part + 1) << (4 - bits))
        chunk = Chunk({"bits": own, "range": its}, table=table([]))
        assert overlaps(chunk, bits, part) == bool(hashes.intersection(asked))
    assert overlaps(Chunk({"tier": 1}, table=table([])), 3, 5), "any hash"


def test_an_epoch_merges_little(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Eight deltas of a size become one in several epochs."""
    sizes = {"TIER_BYTES": 4_000, "MERGED_MOST": 400_000, "RANGE": 20_000, "SWEPT_FROM": 10_000_000}
    for name, value in sizes.items():
        monkeypatch.setattr(keyed_merging, name, value)
    world, expected = many(4_000, 300, 60, tmp_path, gone=5)
    assert contents(world.open()) == expected
    parts = [note for note in world.notes if "delta" in note]
    assert parts, "nothing was merged in parts"
    assert len({note["range"] for note in parts}) > 2
    assert max(world.written[1:]) < 20_000, "of deltas that are 200,000 bytes together"
    assert sum(world.written[1:]) < 3_000_000, "parts of one delta do not count as so many deltas"


@pytest.mark.usefixtures("small")
def test_sweeps_take_several_epochs_and_lose_nothing(tmp_path: Path) -> None:
    world, expected = many(400, 60, 25, tmp_path, gone=10)
    assert contents(world.open()) == expected
    assert any("range" in note and note["bits"] > 2 for note in world.notes), "no sweep of several parts"
    found = world.open().find(table([(f"key {key}", key, 0) for key in range(400)]))
    assert found.values("value") == [expected.get((f"key {key}", key)) for key in range(400)]


@pytest.mark.usefixtures("small")
def test_at_any_moment_of_a_sweep_the_state_is_whole(tmp_path: Path) -> None:
    """Each manifest can be opened, and goes on."""
    seen = set()
    for epochs in range(20, 45):
        directory = tmp_path / str(epochs)
        world, expected = many(300, epochs, 20, directory, gone=5)
        seen |= {len([note for note in world.notes if "sweep" in note])}
        assert contents(world.open()) == expected
    assert len(seen) > 2, "no state was in the middle of a sweep"


@pytest.fixture
def swept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Epochs]:
    """A state of 4,000 keys in the middle of a sweep that has many parts."""
    with monkeypatch.context() as patched:
        for name, value in {"TIER_BYTES": 3_000, "RANGE": 10_000, "SWEPT_FROM": 50_000}.items():
            patched.setattr(keyed_merging, name, value)
        world, dice = Epochs(tmp_path), random.Random(5)
        world.change([(f"key {key}", key, 0) for key in range(4_000)])
        while not any("base" in note and "new" not in note for note in world.notes):
            world.change([("key 1", 1, 0)])
        while swept_parts(world) < 0:
            world.change([(f"key {key}", key, 1) for key in dice.sample(range(4_000), 400)])
        yield world


def swept_parts(world: Epochs) -> int:
    """How many parts the sweep under way has made; -1 without one."""
    return next((note["next"] for note in world.notes if "next" in note), -1)


def test_a_sweep_goes_on_with_what_is_added(swept: Epochs) -> None:
    """It is done before the next one is due, and does not take up one epoch after the other."""
    made = [swept_parts(swept)]
    dice = random.Random(7)
    while made[-1] >= 0:
        swept.change([(f"key {key}", key, 2) for key in dice.sample(range(4_000), 10)])
        made.append(swept_parts(swept))
        assert len(made) < 1_000
    steps = [after - before for before, after in itertools.pairwise(made[:-1])]
    assert 0 in steps, "some epochs make no part"
    assert max(steps) == 1
    assert len(contents(swept.open())) == 4_000


def test_a_part_of_the_base_goes_when_the_sweep_has_made_its_successor(swept: Epochs) -> None:
    """Of a second sweep, whose base has as many parts."""
    dice = random.Random(9)

    def add() -> None:
        swept.change([(f"key {key}", key, 3) for key in dice.sample(range(4_000), 40)])

    while swept_parts(swept) >= 0:
        add()
    parts, most = len([note for note in swept.notes if "base" in note]), 0
    while swept_parts(swept) < 0:
        add()
    while swept_parts(swept) >= 0:
        most = max(most, len([note for note in swept.notes if "base" in note]))
        add()
    assert parts > 8
    assert most <= parts + 2
    assert len(contents(swept.open())) == 4_000


def test_a_sweep_ends_also_where_hardly_anything_is_added(swept: Epochs) -> None:
    bits = next(note["sweep"] for note in swept.notes if "next" in note)
    epochs = 0
    while swept_parts(swept) >= 0:
        swept.change([("key 1", 1, epochs)])
        epochs += 1
        assert epochs <= (1 << bits) * keyed_merging.SLOWEST
    assert epochs > 1 << bits
    assert contents(swept.open())[("key 1", 1)] == epochs - 1


def test_deltas_stay_few_whatever_their_sizes(tmp_path: Path) -> None:
    """A large one takes the small ones before it along."""
    world, dice, expected = Epochs(tmp_path), random.Random(3), dict[Row, int]()
    for number in range(120):
        keys = range(20_000) if not number else dice.sample(range(20_000), dice.choice([1, 3, 30, 9_000]))
        batch = table([(f"key {key}", key, number) for key in keys])
        state = world.store.open(world.manifest)
        state.keyed("t", ["name", "number"]).put(batch)
        world.manifest = world.store.commit(state, epoch=number + 1, generation=1)
        expected.update({(f"key {key}", key): number for key in keys})
        tiers = [note["tier"] for note in world.notes if "tier" in note and "sweep" not in note]
        assert tiers == sorted(tiers, reverse=True)
        assert len(tiers) < 3 * keyed_merging.TIER
    assert contents(world.open()) == expected


def test_little_is_written_for_little_that_changed(tmp_path: Path) -> None:
    world, expected = many(60_000, 12, 600, tmp_path)
    whole, later = world.written[0], world.written[1:]
    assert whole > 2_000_000
    assert max(later[:6]) < 0.02 * whole, "1 % changed"
    assert contents(world.open()) == expected


def test_keys_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(keyed, "hashes_of", lambda keys: np.full(keys.num_rows, 7, np.uint64))
    world = Epochs(tmp_path)
    world.apply([("a", 1, 1), ("b", 1, 2), ("a", 1, 3), ("c", 1, 4)])
    held = world.apply([("b", 1, 5), ("c", 1, None), ("d", 1, 6)])
    assert contents(held) == {("a", 1): 3, ("b", 1): 5, ("d", 1): 6}
    found = held.find(table([(name, 1, 0) for name in "dcba"]))
    assert found.values("value") == [6, None, 5, 3]


def test_what_an_epoch_wrote_is_seen_in_it() -> None:
    held = StateTables({}, {}, {}).keyed("t", ["name", "number"])
    held.put(table([("a", 1, 1), ("a", 1, 2)]))
    assert held.find(table([("a", 1, 0)])).values("value") == [2]
    held.remove(table([("a", 1, 0)]))
    assert held.find(table([("a", 1, 0)])).missing.tolist() == [True]
    assert held.read() is None


def test_numbers_are_added_to_those_of_their_keys() -> None:
    held = StateTables({}, {}, {}).keyed("t", ["name", "number"])
    asked = table([("b", 1, 0), ("new", 1, 0), ("a", 1, 0)])
    more = np.array([1, 2, 3])
    assert held.find(asked).added_to(more, "value").tolist() == [1, 2, 3], "nothing is known"
    held.put(table([("a", 1, 10), ("b", 1, 20), ("c", 1, 30)]))
    assert held.find(asked).added_to(more, "value").tolist() == [21, 2, 13]
    assert more.tolist() == [1, 2, 3]


def test_rows_of_a_version_without_keys_are_taken_over() -> None:
    before = TableState([])
    before.append(table([("a", 1, 1), ("b", 1, 2)]))
    held = StateTables({}, {}, {"t": before}).keyed("t", ["name", "number"])
    assert contents(held) == {("a", 1): 1, ("b", 1): 2}


@pytest.mark.usefixtures("small")
def test_tables_of_several_partitions_become_one(tmp_path: Path) -> None:
    """As a state that is divided anew: each was in another part of a sweep."""
    merged, expected = TableState([]), dict[Row, int]()
    for part in range(3):
        world, rows = many(300, 21 + 7 * part, 20, tmp_path / str(part), gone=5)
        state = world.store.open(world.manifest)
        for chunk in state.table("t"):
            mine = [(number or 0) % 3 == part for number in chunk.table.column("number").to_pylist()]
            merged.append(chunk.table.filter(pa.array(mine)), note_divided(chunk.note))
        expected.update({key: value for key, value in rows.items() if (key[1] or 0) % 3 == part})
    one = Epochs(tmp_path / "one")
    state = one.store.open(EMPTY)
    state.tables["t"] = merged
    one.manifest = one.store.commit(state, epoch=1, generation=1)
    assert contents(one.open()) == expected
    for number in range(40):
        changes = [(f"key {key}", key, number) for key in range(number, 300, 40)]
        expected.update({(name, key): value for name, key, value in changes})
        assert contents(one.apply(changes)) == expected


def test_a_file_that_was_changed_is_found_before_it_is_used(tmp_path: Path) -> None:
    world, _ = many(50, 3, 5, tmp_path)
    assert world.open().read() is not None
    path = tmp_path / world.manifest.files()[0].name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.with_suffix(".other").write_bytes(bytes(content))
    path.with_suffix(".other").rename(path)
    with pytest.raises(StateMissingError, match="checksum"):
        world.open().read()
