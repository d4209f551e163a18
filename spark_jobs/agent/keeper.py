"""The keeper of a node: stores the states of keys that tasks have asked to be stored, in two steps outside of
the processing of rows, serialising and storing (Apache S4, fault tolerance: asynchronous checkpointing).

`python -m spark_jobs.agent.keeper <node home>` works until SIGTERM, and then stores what waits for a few
seconds. It is a process of its own, since operators may bring their own way to serialise. When the storage
fails often in a row, it is left alone for a while; requests wait, and nothing else does.
"""

from __future__ import annotations

import errno
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import structlog

from domain.execution.job import KeeperStatus
from domain.topology import Topology, split_partition
from host.idle_pool import IdlePool
from spark_jobs.agent.keeper_process import LAST
from spark_jobs.operators.keyed_operator import KeyedOperator
from spark_jobs.state.key_requests import KeyDesk, KeyRequest, KeyWork, WaitingRequest, desks
from spark_jobs.state.key_states import encoded
from spark_jobs.state.saved_keys import SavedKeys
from spark_jobs.state.sealed import DamagedError
from spark_jobs.state.state_storage import StorageError
from spark_jobs.state.storage_urls import open_storage

log = structlog.get_logger()
POLL = 0.1
_SCARCE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""What the node may have again later."""


@dataclass(frozen=True, slots=True)
class Serialised:
    """The states of the keys of some requests, in pieces, taken out of the state of the newest of them."""

    requests: list[WaitingRequest]
    keys: int
    pieces: list[tuple[pa.Array, bytes]]

    @property
    def newest(self) -> KeyRequest:
        return self.requests[-1].request


class DeploymentKeeper:
    """Of one deployment on one node. clock: Unix seconds."""

    def __init__(self, desk: KeyDesk, work: KeyWork, clock: Callable[[], float] = time.time) -> None:
        self._desk = desk
        self.work = work
        self._clock = clock
        self._topology = Topology(work.spec)
        self._keyed: dict[str, KeyedOperator] = {}
        self._storage = open_storage(work.checkpoints, force=work.force)
        self._status = desk.status()
        self._told = KeeperStatus()
        self._spec = spec = work.spec.key_saving
        self._serialising = IdlePool(
            "serialise",
            threads=spec.serialise_threads,
            keep_alive=spec.serialise_keep_alive_s,
            outstanding=spec.serialise_outstanding,
        )
        self._storing = IdlePool(
            "store",
            threads=spec.store_threads,
            keep_alive=spec.store_keep_alive_s,
            outstanding=spec.store_outstanding,
        )
        # By directory of a partition, of which one request after the other is serialised and stored.
        self._under_way: dict[str, tuple[Path, Future[Serialised] | Future[int]]] = {}
        self._serialised: dict[str, Serialised] = {}

    @property
    def calls(self) -> list[Future[Any]]:
        """Those under way."""
        return [call for _, call in self._under_way.values()]

    def close(self) -> None:
        self._serialising.close()
        self._storing.close()
        self._storage.close()

    def poll(self) -> None:
        """Take what has ended, and begin what can begin."""
        for directory, (path, call) in list(self._under_way.items()):
            if call.done():
                del self._under_way[directory]
                self._ended(directory, path, call)
        if self._status.storing.state(self._clock(), bypass=self._spec.bypass_s) != "open":
            for directory, requests in self._desk.waiting().items():
                if directory not in self._under_way:
                    self._begin(directory, requests)
        self._tell()

    def _begin(self, directory: str, requests: list[Path]) -> None:
        """The next step for a partition, if there is a thread for it."""
        call: Future[Serialised] | Future[int] | None
        if directory in self._serialised:
            # While the storage is tried again after a bypass, one request alone tells how it is.
            if self._status.storing.until and self._storing.busy:
                return
            call = self._storing.submit(self._store, self._serialised[directory])
        else:
            call = self._serialising.submit(self._serialise, requests)
        if call is not None:
            self._under_way[directory] = (requests[0], call)

    def _serialise(self, paths: list[Path]) -> Serialised:
        """Those that have waited are stored together: the newest state has what the older ones have. Where
        that fails the first is stored by itself, and the one that is to blame fails when its turn comes."""
        waiting = [WaitingRequest.read(paths[0])]
        for path in paths[1:]:
            try:
                following = WaitingRequest.read(path)
            except (DamagedError, OSError):
                break  # it is told when its turn comes
            if following.history != waiting[0].history:
                break
            waiting.append(following)
        try:
            return self._together(waiting)
        except Exception:
            if len(waiting) == 1:
                raise
            return self._together(waiting[:1])

    def _together(self, waiting: list[WaitingRequest]) -> Serialised:
        newest = waiting[-1]
        keyed = self._operator(newest.request.partition)
        state = newest.store().open(newest.request.manifest)
        keys = pa.array(sorted({key for one in waiting for key in one.request.keys}), pa.string())
        pieces = [(part, encoded(keyed.take(state, part))) for part in keyed.pieces(keys)]
        return Serialised(waiting, len(keys), pieces)

    def _store(self, serialised: Serialised) -> int:
        newest = serialised.newest
        saved = SavedKeys(self._storage, self._desk.topology, self._desk.deployed, newest.partition)
        stored = saved.store(newest.manifest.generation, newest.manifest.epoch, serialised.pieces)
        for request in serialised.requests:
            request.remove()
        keyed = self._operator(newest.partition)
        try:
            saved.merge(keyed.take, keyed.join)
        except (StorageError, DamagedError) as error:  # what was stored is there; tried after the next one
            log.warning("segments not merged", partition=newest.partition, error=str(error))
        return stored

    def _operator(self, partition: str) -> KeyedOperator:
        name, _ = split_partition(partition)
        if name not in self._keyed:
            self._keyed[name] = KeyedOperator(self._topology, name, self.work.modules)
        return self._keyed[name]

    def _ended(self, directory: str, path: Path, call: Future[Serialised] | Future[int]) -> None:
        problem = call.exception()
        if problem is None:
            done = call.result()
            if isinstance(done, Serialised):
                self._serialised[directory] = done
            else:
                self._stored(self._serialised.pop(directory), done)
        elif isinstance(problem, StorageError) or getattr(problem, "errno", None) in _SCARCE:
            most, bypass = self._spec.failures, self._spec.bypass_s
            storing = self._status.storing.failed(self._clock(), most=most, bypass=bypass)
            self._status = msgspec.structs.replace(self._status, storing=storing, error=str(problem))
            log.warning("states of keys not stored", request=str(path), error=str(problem))
        else:  # it would fail again
            error = f"{type(problem).__name__}: {problem}"
            self._status = msgspec.structs.replace(self._status, error=error)
            log.error("request for states of keys dropped", request=str(path), error=error)
            self._serialised.pop(directory, None)
            shutil.rmtree(path, ignore_errors=True)

    def _stored(self, serialised: Serialised, size: int) -> None:
        status = self._status
        self._status = msgspec.structs.replace(
            status,
            stored=status.stored + serialised.keys,
            bytes=status.bytes + size,
            segments=status.segments + 1,
            storing=status.storing.succeeded(),
            error="",
        )

    def _tell(self) -> None:
        if self._status != self._told:
            self._told = self._status
            self._desk.tell_status(self._status)


class Keeper:
    """Of all deployments on a node."""

    def __init__(self, home: Path, clock: Callable[[], float] = time.time) -> None:
        self._home = home
        self._clock = clock
        self._keepers: dict[tuple[str, int], DeploymentKeeper] = {}
        self._versions: dict[tuple[str, int], object] = {}
        self._problems: dict[tuple[str, int], str] = {}

    def poll(self) -> None:
        found: set[tuple[str, int]] = set()
        for desk in desks(self._home):
            name = (desk.topology, desk.deployed)
            found.add(name)
            try:
                self._keeper(name, desk).poll()
                self._problems.pop(name, None)
            except (OSError, ValueError, LookupError, StorageError) as error:
                if self._problems.get(name) != str(error):  # it is tried again, and told once
                    self._problems[name] = str(error)
                    log.error("states of keys not looked after", topology=desk.topology, error=str(error))
        for name in self._keepers.keys() - found:
            self._keepers.pop(name).close()
            self._versions.pop(name, None)

    def _keeper(self, name: tuple[str, int], desk: KeyDesk) -> DeploymentKeeper:
        """What is to be done is read again when it is another."""
        version = desk.work_version()
        if self._versions.get(name) != version:
            if before := self._keepers.pop(name, None):
                wait(before.calls)  # a partition is stored by one at a time
                before.close()
            self._versions.pop(name, None)
            self._keepers[name] = DeploymentKeeper(desk, desk.work(), self._clock)
            self._versions[name] = version
        return self._keepers[name]

    def drain(self, seconds: float) -> None:
        """Store what waits, for at most so long; nothing where the storage is bypassed."""
        until = time.monotonic() + seconds
        self.poll()
        while calls := [call for keeper in self._keepers.values() for call in keeper.calls]:
            if (left := until - time.monotonic()) <= 0:
                return
            wait(calls, left, FIRST_COMPLETED)
            self.poll()


def main(home: str) -> int:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keeper = Keeper(Path(home))
    while not stop.wait(POLL):
        keeper.poll()
    keeper.drain(LAST)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
