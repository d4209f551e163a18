"""Which keys of a partition are stored, and which are fetched when their first rows come."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from domain.execution.job import EpochPlan, Job, Layout, TaskReport
from domain.topology import Topology, load_topology
from spark_jobs.agent.keeper import Keeper
from spark_jobs.executor import key_fetching
from spark_jobs.executor.key_saving import LAZY, KeySaving, go_on
from spark_jobs.executor.task import Level
from spark_jobs.operators.base import EpochContext, Operator
from spark_jobs.operators.catalogue import OperatorCatalogue
from spark_jobs.operators.keyed_operator import KeyedOperator
from spark_jobs.state.key_requests import KeyDesk, KeyWork, WaitingRequest
from spark_jobs.state.key_states import KeySet, Mask
from spark_jobs.state.saved_keys import SavedKeys
from spark_jobs.state.state_storage import UnavailableError
from spark_jobs.state.store import StateMissingError, StateStore
from spark_jobs.state.tables import StateTables

MODULES = ["tests.unit.spark_jobs.executor.test_key_saving"]
Inputs = dict[str, list[pa.Table]]


class Sums(Operator):
    """Adds up `n` by key; with `only`, other keys never change, and `patient` ones wait for two rows."""

    kind = "sums"

    @classmethod
    def state_columns(cls, params: Any) -> tuple[str, ...]:
        return ("key",)

    def is_dirty(self, keys: pa.Array, inputs: Any) -> Mask:
        only = self.params.get("only")
        if only is None:
            return super().is_dirty(keys, inputs)
        return KeySet(pa.array([only]), str).mask(pa.chunked_array([keys]))

    def checkpoint(self, keys: pa.Table) -> Mask:
        if not self.params.get("patient"):
            return super().checkpoint(keys)
        return keys.column("events").to_numpy() >= 2

    def process(self, context: EpochContext, inputs: Any, state: StateTables) -> pa.Table | None:
        sums = state.map("sums")
        for group in inputs.values():
            for row in (row for table in group for row in table.to_pylist()):
                sums[row["key"]] = sums.get(row["key"], 0) + row["n"]
        return None


@dataclass
class Task:
    """The tasks that run partition `O[0]` on a node, one after the other; the state between them."""

    root: Path
    every: str = "10s"
    params: dict[str, Any] = field(default_factory=dict)
    node: str = "a"
    epoch: int = 0

    def __post_init__(self) -> None:
        self.topology: Topology = load_topology(
            {
                "name": "t",
                "guarantee": "bounded",
                "key_saving": {
                    "fetch_wait_s": 0.5,
                    "failures": 2,
                    "bypass_s": 60,
                    "serialise_outstanding": 1,
                    "store_outstanding": 1,
                },
                "operators": [
                    {"name": "S", "kind": "source", "params": {"path": "x.parquet"}},
                    {
                        "name": "O",
                        "kind": "python",
                        "every": self.every,
                        "inputs": [{"from": "S"}],
                        "params": {"class": f"{MODULES[0]}.Sums", "params": self.params},
                        "output": True,
                    },
                ],
            },
            OperatorCatalogue(MODULES),
        )
        self.layout = Layout(
            spec=self.topology.spec,
            generation=1,
            deployed=1,
            force=False,
            nodes=["a"],
            slots={"O[0]": 0},
            levels={"O[0]": 0},
            outputs="",
            checkpoints=f"file://{self.root}/checkpoints",
            readers={},
            operator_modules=MODULES,
        )
        self.keyed = KeyedOperator(self.topology, "O", MODULES)
        self.saving = self.made()

    @property
    def home(self) -> Path:
        return self.root / self.node

    @property
    def store(self) -> StateStore:
        return StateStore(self.home / "state" / "t" / "1" / "O-0")

    @property
    def desk(self) -> KeyDesk:
        return KeyDesk(self.home, "t", 1)

    def made(self) -> KeySaving:
        return KeySaving(self.home, self.layout, self.topology, "O[0]", self.keyed)

    def apply(self, rows: dict[str, int], at: float) -> list[str]:
        """An epoch in which these rows come; returns the keys that were left to be stored."""
        self.saving = self.made()
        table = pa.table({"key": pa.array(rows, pa.string()), "n": pa.array(rows.values(), pa.int64())})
        inputs: Inputs = {"S": [table]}
        state = self.store.open(self.store.manifest(self.epoch))
        context = EpochContext(self.epoch + 1, 0, 0)
        self.saving.recall(context, inputs, state)
        self.keyed.operator.process(context, inputs, state)
        plan = EpochPlan(epoch=self.epoch + 1, slices={}, watermark=0, previous_watermark=0, at=at)
        due = self.saving.changed(plan, inputs, state)
        self.epoch += 1
        manifest = self.store.commit(state, epoch=self.epoch, generation=1)
        if due:
            self.desk.prepare(
                KeyWork(
                    spec=self.layout.spec, checkpoints=self.layout.checkpoints, modules=MODULES, force=False
                )
            )
            self.desk.leave(self.store, "O[0]", manifest, due, counts=True)
        return due

    def keep(self) -> None:
        Keeper(self.home).drain(30)

    def sums(self) -> dict[str, int]:
        return dict(self.store.open(self.store.manifest(self.epoch)).maps.get("sums", {}))

    def lose(self, node: str) -> None:
        """The partition goes on without state on another node."""
        self.node = node
        go_on(self.store, 0, self.epoch)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Task(tmp_path)


def test_after_a_time_all_changed_keys_are_stored(task: Task) -> None:
    assert task.apply({"a": 1}, 100.0) == []
    assert task.apply({"b": 1, "c": 1}, 109.0) == []
    assert (task.saving.counts.dirty, task.saving.counts.oldest) == (3, 9.0)
    assert task.apply({}, 110.0) == ["a", "b", "c"]
    assert task.saving.counts.dirty == 0
    assert task.apply({"b": 1}, 111.0) == []
    assert task.apply({}, 120.0) == ["b"]
    assert task.apply({}, 130.0) == []


def test_after_a_number_of_events_a_key_is_stored(tmp_path: Path) -> None:
    task = Task(tmp_path, every="3 events")
    assert task.apply({"a": 1, "b": 1}, 100.0) == []
    assert task.apply({"a": 1}, 101.0) == []
    assert task.apply({"a": 1, "b": 1}, 102.0) == ["a"]
    assert task.apply({"a": 1, "b": 1}, 103.0) == ["b"]


def test_operators_say_what_has_changed_and_what_is_stored(tmp_path: Path) -> None:
    task = Task(tmp_path, params={"only": "a"})
    task.apply({"a": 1, "b": 1}, 100.0)
    assert task.apply({}, 110.0) == ["a"]
    (tmp_path / "other").mkdir()
    patient = Task(tmp_path / "other", params={"patient": True})
    patient.apply({"a": 1, "b": 1}, 100.0)
    assert patient.apply({"a": 1}, 110.0) == ["a"]
    assert patient.saving.counts.dirty == 1


def test_what_finds_no_place_is_tried_again_after_the_next_epoch(task: Task) -> None:
    """One request may wait to be serialised, and one to be stored."""
    for at in (100.0, 110.0, 120.0):
        task.apply({"a": 1}, at)
    assert sum(map(len, task.desk.waiting().values())) == 2
    assert task.apply({"b": 1}, 130.0) == []
    assert task.saving.counts.refused == 1
    task.keep()
    assert task.apply({}, 131.0) == ["b"]


def test_a_key_is_fetched_when_its_first_row_comes_and_never_again(task: Task) -> None:
    task.apply({"a": 5, "b": 6, "c": 7}, 100.0)
    task.apply({}, 110.0)
    task.keep()
    task.apply({"a": 100}, 111.0)  # not stored again
    task.lose("b")
    assert task.sums() == {}
    task.apply({"a": 1, "new": 1}, 112.0)
    assert task.sums() == {"a": 6, "new": 1}
    assert (task.saving.counts.fetched, task.saving.counts.unknown) == (1, 1)
    task.apply({"a": 1, "c": 1}, 113.0)
    assert task.sums() == {"a": 7, "new": 1, "c": 8}
    assert task.saving.counts.fetched == 1
    task.apply({"a": 1, "c": 1, "new": 1}, 114.0)
    assert (task.saving.counts.fetched, task.saving.counts.unknown) == (0, 0)


def test_an_epoch_that_runs_again_fetches_again(task: Task) -> None:
    task.apply({"a": 5}, 100.0)
    task.apply({}, 110.0)
    task.keep()
    task.lose("b")
    for _ in range(2):
        task.apply({"a": 1}, 112.0)
        assert task.sums() == {"a": 6}
        task.epoch -= 1


def test_where_nothing_was_stored_nothing_is_asked_for(task: Task) -> None:
    task.lose("b")
    task.epoch = 3
    go_on(task.store, 0, 3)
    assert task.store.manifest(3).values[LAZY]
    task.apply({"a": 1}, 100.0)
    assert LAZY not in task.store.manifest(4).values


def test_a_partition_goes_on_with_an_earlier_state_of_its_node(task: Task) -> None:
    task.apply({"a": 5}, 100.0)
    task.apply({"a": 1}, 101.0)
    go_on(task.store, 1, 7)
    task.epoch = 7
    assert task.sums() == {"a": 5}
    with pytest.raises(StateMissingError):
        go_on(task.store, 5, 9)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The storage answers when this is set."""
    answers = threading.Event()
    find = SavedKeys.find

    def slowly(self: SavedKeys, *arguments: Any) -> Any:
        if not answers.wait(20):
            raise UnavailableError("too slow")
        return find(self, *arguments)

    monkeypatch.setattr(SavedKeys, "find", slowly)
    key_fetching._pool.cache_clear()
    yield answers
    answers.set()
    key_fetching._pool.cache_clear()


def lost(task: Task) -> None:
    task.apply({"a": 5, "b": 6, "c": 7}, 100.0)
    task.apply({}, 110.0)
    task.keep()
    task.lose("b")


def test_a_fetch_without_answer_ends_in_time_and_then_storage_is_bypassed(
    task: Task, slow: threading.Event
) -> None:
    lost(task)
    for number, key in enumerate("ab", start=1):
        began = time.monotonic()
        task.apply({key: 1}, 111.0 + number)
        assert time.monotonic() - began < 10  # and not 20, when the storage would answer
        assert task.saving.counts.unanswered == 1
        assert task.desk.fetching().failures == number
    assert task.desk.fetching().state(time.time(), bypass=600.0) == "open"
    task.apply({"c": 1}, 114.0)
    assert task.saving.counts.bypassed == 1
    assert task.sums() == {"a": 1, "b": 1, "c": 1}


def test_a_storage_that_fails_is_told_at_once(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    lost(task)

    def failing(self: SavedKeys, *arguments: Any) -> Any:
        raise UnavailableError("no route")

    with monkeypatch.context() as broken:
        broken.setattr(SavedKeys, "find", failing)
        task.apply({"a": 1}, 112.0)
    assert task.saving.counts.unanswered == 1
    task.apply({"b": 1}, 113.0)
    assert task.sums() == {"a": 1, "b": 7}
    assert task.desk.fetching().failures == 0


def test_at_the_end_all_changed_keys_are_given(task: Task) -> None:
    task.apply({"a": 1, "b": 1}, 100.0)
    state = task.store.open(task.store.manifest(1))
    assert task.saving.all_changed(state) == ["a", "b"]
    assert task.saving.all_changed(state) == []


def test_a_job_at_the_end_leaves_them_once_to_be_stored(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_HOME", str(task.home))
    task.apply({"a": 1, "b": 2}, at=1.0)
    layout = msgspec.structs.replace(task.layout, slots={"S[0]": 0, "O[0]": 0}, levels={"S[0]": 0, "O[0]": 1})
    job = Job(lane=None, epochs=[], progress={"S[0]": 1, "O[0]": 1}, save=True)
    for _ in range(2):
        level = Level(1, 0, msgspec.json.encode(layout), msgspec.json.encode(job))
        ((_, (*_, report)),) = level.run()
        assert msgspec.json.decode(report, type=TaskReport).partitions == {}
        ((request,),) = task.desk.waiting().values()
        assert sorted(WaitingRequest.read(request).request.keys) == ["a", "b"]
