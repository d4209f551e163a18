"""Fetching the states of keys from storage while their first rows wait (Apache S4: lazy recovery).

One batch for each epoch, with a time limit: keys that are not answered in time begin without state, as all do
while the storage is bypassed.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, wait
from functools import lru_cache

import pyarrow as pa
import structlog

from domain.execution.job import KeyCounts, Layout
from domain.key_saving.breaker import Breaker
from domain.topology.spec import KeySavingSpec
from host.idle_pool import IdlePool
from spark_jobs.operators.keyed_operator import KeyedOperator
from spark_jobs.state.key_requests import KeyDesk
from spark_jobs.state.saved_keys import Index, SavedKeys, Segment
from spark_jobs.state.sealed import DamagedError
from spark_jobs.state.state_storage import StateStorage, StorageError
from spark_jobs.state.storage_urls import open_storage
from spark_jobs.state.tables import StateTables

log = structlog.get_logger()
MOST_INDICES = 256
WAITING = 64
"""Fetches that wait for a thread, at most: each has its keys begin without state when its time is over."""

_indices: dict[tuple[str, str, str], Index] = {}
"""Of segments that were looked into, which never change."""


@lru_cache(maxsize=4)
def _storage(url: str) -> StateStorage:
    return open_storage(url)


@lru_cache(maxsize=4)
def _pool(url: str, spec: KeySavingSpec) -> IdlePool:
    threads, keep_alive = spec.fetch_threads, spec.fetch_keep_alive_s
    return IdlePool("fetch", threads=threads, keep_alive=keep_alive, outstanding=WAITING)


class KeyFetcher:
    """For one partition of a topology."""

    def __init__(self, desk: KeyDesk, layout: Layout, partition: str) -> None:
        self._desk = desk
        self._layout = layout
        self._partition = partition
        self._spec = layout.spec.key_saving

    def fetch(self, keyed: KeyedOperator, keys: pa.Array) -> tuple[list[StateTables], KeyCounts]:
        """The states of those of the keys that storage has."""
        breaker = self._desk.fetching()
        if self._bypassed(breaker):
            return [], KeyCounts(bypassed=len(keys))
        share = -(-len(keys) // self._spec.fetch_threads)
        parts = [keys.slice(at, share) for at in range(0, len(keys), share)]
        pool = _pool(self._layout.checkpoints, self._spec)
        begun = [(part, pool.submit(self._read, keyed, part)) for part in parts]
        wait([call for _, call in begun if call is not None], self._spec.fetch_wait_s)
        states: list[StateTables] = []
        counts = KeyCounts()
        problem = ""
        for part, call in begun:
            try:
                if call is None:
                    raise TimeoutError(f"{WAITING} fetches wait already")
                found, number = _result(call, self._spec.fetch_wait_s)
            except (StorageError, DamagedError, OSError, TimeoutError) as error:
                problem = str(error)
                counts = counts.plus(KeyCounts(unanswered=len(part)))
            else:
                states += found
                counts = counts.plus(KeyCounts(fetched=number, unknown=len(part) - number))
        self._note(breaker, problem)
        return states, counts

    def nothing_saved(self) -> bool:
        """Whether there is nothing to be fetched of this partition, as far as that can be told at once."""
        if self._bypassed(self._desk.fetching()):
            return False
        call = _pool(self._layout.checkpoints, self._spec).submit(lambda: not self._saved().segments())
        try:
            return call is not None and call.result(self._spec.fetch_wait_s)
        except (StorageError, OSError, TimeoutError):
            return False

    def _bypassed(self, breaker: Breaker) -> bool:
        return breaker.state(time.time(), bypass=self._spec.bypass_s) == "open"

    def _note(self, before: Breaker, problem: str) -> None:
        after = before.succeeded()
        if problem:
            log.warning("states of keys not fetched", partition=self._partition, error=problem)
            most, bypass = self._spec.failures, self._spec.bypass_s
            after = before.failed(time.time(), most=most, bypass=bypass)
        if after != before:
            self._desk.tell_fetching(after)

    def _saved(self) -> SavedKeys:
        layout = self._layout
        return SavedKeys(_storage(layout.checkpoints), layout.spec.name, layout.deployed, self._partition)

    def _read(self, keyed: KeyedOperator, keys: pa.Array) -> tuple[list[StateTables], int]:
        saved = self._saved()

        def index(segment: Segment) -> Index:
            named = (self._layout.checkpoints, f"{self._layout.spec.name}/{self._partition}", segment.name)
            if named not in _indices:
                if len(_indices) >= MOST_INDICES:
                    _indices.clear()
                _indices[named] = saved.index(segment)
            return _indices[named]

        return saved.find(keys, index, keyed.take)


def _result(call: Future[tuple[list[StateTables], int]], wait_s: float) -> tuple[list[StateTables], int]:
    if not call.done():
        call.cancel()
        raise TimeoutError(f"no answer within {wait_s:g} s")
    return call.result()
