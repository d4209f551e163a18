"""What every `StateStorage` promises."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spark_jobs.state import fsspec_storage, postgresql_storage, redis_storage
from spark_jobs.state.state_storage import NotThereError, StateStorage
from tests.unit.spark_jobs.state.conformance.backends import opened

CHUNK = 1000


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few thousand bytes are several."""
    for module in (redis_storage, postgresql_storage):
        monkeypatch.setattr(module, "CHUNK", CHUNK)
    monkeypatch.setattr(fsspec_storage, "AT_ONCE", CHUNK)


def put(objects: StateStorage, **contents: bytes) -> set[str]:
    """Names have / for __."""
    return objects.put({}, {name.replace("__", "/"): content for name, content in contents.items()})


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7])
def test_what_is_stored_is_read(objects: StateStorage, tmp_path: Path, size: int) -> None:
    content = bytes(range(256)) * (size // 256 + 1)
    content = content[:size]
    (tmp_path / "source").write_bytes(content)
    assert objects.put({"t/files/a": tmp_path / "source"}, {"t/then/b": content}) == set()
    for name in ("t/files/a", "t/then/b"):
        assert objects.get(name) == content
        objects.get_file(name, tmp_path / "target")
        assert (tmp_path / "target").read_bytes() == content
        assert objects.size(name) == size
    assert objects.entries("t/files") == {"a": size}


def test_what_is_not_there_is_told_apart(objects: StateStorage, tmp_path: Path) -> None:
    put(objects, t__a=b"a", t__b__c=b"c")
    for name in ("t/x", "x/y/z", "t/b/x"):
        with pytest.raises(NotThereError, match=name):
            objects.get(name)
        with pytest.raises(NotThereError, match=name):
            objects.get_file(name, tmp_path / "target")
        with pytest.raises(NotThereError, match=name):
            objects.rename(name, "new")
        assert objects.size(name) is None
        assert objects.entries(name) == {}
        objects.delete([name])
        objects.remove_tree(name)
    assert objects.size("t/b") is None, "a directory is no object"
    assert objects.get("t/a") == b"a"


def test_a_target_that_cannot_be_made_is_no_missing_object(objects: StateStorage, tmp_path: Path) -> None:
    put(objects, t__a=b"a")
    with pytest.raises(FileNotFoundError):
        objects.get_file("t/a", tmp_path / "gone" / "target")


def test_an_object_is_written_once(objects: StateStorage, tmp_path: Path) -> None:
    assert put(objects, t__a=b"first") == set()
    (tmp_path / "source").write_bytes(b"second")
    assert put(objects, t__a=b"second", t__b=b"b") == {"t/a"}
    assert objects.put({"t/a": tmp_path / "source"}, {"t/b": b"other", "t/c": b"c"}) == {"t/a", "t/b"}
    assert [objects.get(f"t/{name}") for name in "abc"] == [b"first", b"b", b"c"]


def test_a_source_stays_as_it_is(objects: StateStorage, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"content")
    objects.put({"t/a": source}, {})
    objects.rename("t/a", "a.damaged")
    objects.delete(["t/a.damaged"])
    assert source.read_bytes() == b"content"
    objects.put({"t/a": source}, {})
    source.unlink()
    assert objects.get("t/a") == b"content"


def test_nothing_follows_a_file_that_cannot_be_read(objects: StateStorage, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"content")
    with pytest.raises((NotThereError, FileNotFoundError)):
        objects.put({"t/f/a": tmp_path / "source", "t/f/b": tmp_path / "gone"}, {"t/m/c": b"c"})
    assert objects.entries("t/m") == {}
    assert objects.size("t/m/c") is None
    assert set(objects.entries("t/f")) <= {"a"}
    objects.put({"t/f/a": tmp_path / "source", "t/f/b": tmp_path / "source"}, {"t/m/c": b"c"})
    assert [objects.get(name) for name in ("t/f/a", "t/f/b", "t/m/c")] == [b"content", b"content", b"c"]


@pytest.mark.parametrize(
    "name", ["a b", "a[0]", "a*", "a?b", "ä", "%41", "a%2Fb", "a:b", "a'b", 'a"b', "a_b", "5."]
)
def test_names_are_taken_literally(objects: StateStorage, tmp_path: Path, name: str) -> None:
    put(objects, t__a=b"other", t__ab=b"other")
    (tmp_path / "source").write_bytes(b"content")
    assert objects.put({f"t/{name}": tmp_path / "source"}, {f"t/{name} of/{name}": b"content"}) == set()
    assert objects.entries("t") == {"a": 5, "ab": 5, name: 7, f"{name} of": None}
    assert objects.get(f"t/{name}") == objects.get(f"t/{name} of/{name}") == b"content"
    objects.rename(f"t/{name}", f"{name}.damaged")
    assert objects.size(f"t/{name}.damaged") == 7
    objects.delete([f"t/{name}.damaged"])
    objects.remove_tree(f"t/{name} of")
    assert objects.entries("t") == {"a": 5, "ab": 5}


def test_a_directory_lists_its_own(objects: StateStorage) -> None:
    put(objects, t__5__a=b"1", t__5__b__c=b"22", t__50__a=b"333", t__5a=b"4444", u__5=b"5")
    assert objects.entries("") == {"t": None, "u": None}
    assert objects.entries("t") == {"5": None, "50": None, "5a": 4}
    assert objects.entries("t/5") == {"a": 1, "b": None}


def test_a_tree_goes_with_all_that_is_below(objects: StateStorage) -> None:
    put(objects, t__5__a=b"1", t__5__b__c__d=b"2", t__50__a=b"3", t__5a=b"4")
    objects.remove_tree("t/5")
    assert objects.entries("t") == {"50": None, "5a": 1}
    assert objects.entries("t/5") == objects.entries("t/5/b") == {}
    with pytest.raises(NotThereError):
        objects.get("t/5/b/c/d")
    assert put(objects, t__5__a=b"again") == set()
    assert objects.get("t/5/a") == b"again"


def test_many_are_deleted_at_once(objects: StateStorage) -> None:
    objects.put({}, {f"t/{number}": b"x" for number in range(30)})
    objects.delete([f"t/{number}" for number in range(0, 40, 2)])
    objects.delete([])
    assert set(objects.entries("t")) == {str(number) for number in range(1, 30, 2)}


def test_a_new_name_takes_the_place_of_what_had_it(objects: StateStorage) -> None:
    put(objects, t__a=b"a" * 2 * CHUNK, t__b=b"b" * 5 * CHUNK)
    objects.rename("t/a", "b")
    assert objects.entries("t") == {"b": 2 * CHUNK}
    assert objects.get("t/b") == b"a" * 2 * CHUNK
    assert put(objects, t__a=b"new") == set()


def test_of_writers_at_the_same_moment_one_is_first(url: str) -> None:
    """Each with a connection of its own, as processes on different nodes."""
    writers = 6
    gate = threading.Barrier(writers)

    def write(number: int) -> set[str]:
        with opened(url) as own:
            own.entries("t")
            gate.wait(30)
            return own.put({}, {"t/a": bytes([number]) * 3 * CHUNK, f"t/{number}": b"own"})

    with ThreadPoolExecutor(writers) as pool:
        there = list(pool.map(write, range(writers)))
    (first,) = [number for number, found in enumerate(there) if not found]
    assert all(found == {"t/a"} for number, found in enumerate(there) if number != first)
    with opened(url) as objects:
        assert objects.get("t/a") == bytes([first]) * 3 * CHUNK
        assert len(objects.entries("t")) == 1 + writers


def test_threads_share_a_storage(objects: StateStorage, tmp_path: Path) -> None:
    def work(number: int) -> None:
        objects.put({}, {f"t/{number}/{one}": bytes([number, one]) for one in range(5)})
        assert set(objects.entries(f"t/{number}")) == set("01234")
        for one in range(5):
            assert objects.get(f"t/{number}/{one}") == bytes([number, one])
        objects.remove_tree(f"t/{number}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(8)))
    assert objects.entries("t") in ({}, {str(number): None for number in range(8)})
