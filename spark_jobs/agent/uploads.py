"""Uploading snapshots: what tasks leave under `snapshots/` goes to the checkpoint storage.

Incremental, since state files are immutable: only those that the storage lacks are sent, with the manifest;
the acknowledgement follows when all of it is on disk there. A failure becomes an acknowledgement with an
error (the checkpoint fails, the next one tries again); the node's own state is never touched.

Large uploads are spread out (`pace.py`), unless the job waits for them.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import msgspec
import structlog

from domain.messages import CheckpointAck, Snapshot, decode
from domain.topology import partition_directory
from spark_jobs.agent.pace import Bucket, Pace, slot
from spark_jobs.state.checkpoint_storage import CheckpointStorage, StoredManifest
from spark_jobs.state.node_home import STATE, deployment_home
from spark_jobs.state.sealed import DamagedError, unseal
from spark_jobs.state.snapshot import snapshot_path
from spark_jobs.state.state_storage import StorageError
from spark_jobs.state.store import decode_manifest

log = structlog.get_logger()

POLL_INTERVAL = 0.2
THREADS = 4
NICENESS = 5
"""Of the threads that upload, above that of their process: where the CPU is short, tasks come first. They
keep a third of the weight, so that a checkpoint ends on a node that is busy all the time."""


class Uploader(threading.Thread):
    """Polls a node's `snapshots/` and uploads with a few threads.

    `acknowledge` writes an ack and returns False when that is impossible for now (no ZooKeeper); the
    snapshot then stays and is tried again, which costs nothing as its files are stored already.
    """

    def __init__(
        self,
        *,
        node: str,
        node_home: Path,
        storage: CheckpointStorage,
        acknowledge: Callable[[str, CheckpointAck, str], bool],
        begin: threading.Event | None = None,
        cores: float = 1.0,
    ) -> None:
        """begin: nothing is uploaded before it is set; None: it may begin at once. cores: of the node."""
        super().__init__(name="uploads", daemon=True)
        self._node = node
        self._home = node_home
        self._snapshots = node_home / "snapshots"
        self._storage = storage
        self._acknowledge = acknowledge
        self._begin = begin
        self._finished = threading.Event()
        self._bucket = Bucket(cores)
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="upload", initializer=_give_way)
        self._in_flight: dict[Path, Future[bool]] = {}

    def finish(self) -> None:
        """Stop after the uploads that have begun."""
        self._finished.set()
        self.join(5)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def run(self) -> None:
        while not self._finished.wait(POLL_INTERVAL):
            if self._begin is None or self._begin.is_set():
                self.poll()

    def poll(self) -> None:
        """Start an upload for every snapshot that has none; collect the finished ones."""
        for path, upload in list(self._in_flight.items()):
            if upload.done():
                del self._in_flight[path]
                failure = upload.exception()
                if failure is not None:
                    log.error("upload broke off", snapshot=str(path), error=repr(failure))
        under_way = {_of(path): path for path in self._in_flight}
        newest = newest_snapshots(self._snapshots)
        checkpoints = Counter(path.parent for path in newest)
        places: Counter[Path] = Counter()
        for path, older in newest.items():
            place, of = places[path.parent], checkpoints[path.parent]
            places[path.parent] += 1
            # What is uploaded last is what storage holds, so an older one ends first, or never begins.
            before = under_way.get(_of(path))
            if before is None:
                self._in_flight[path] = self._pool.submit(self.upload, path, place, of)
            for one in older:
                if one != before:
                    log.info("snapshot dropped: there is a newer one", snapshot=str(one))
                    _remove(one)

    def upload(self, path: Path, place: int = 0, of: int = 1) -> bool:
        """Upload one snapshot and acknowledge the result; False if it has to be tried again. place: among so
        many of its checkpoint."""
        started, processor = time.monotonic(), time.thread_time()
        try:
            taken_at = path.stat().st_mtime
            waited = max(0.0, time.time() - taken_at)
            snapshot = read_snapshot(path, self._snapshots)
        except FileNotFoundError:
            return True
        except (OSError, ValueError) as error:
            log.error("unreadable snapshot dropped", snapshot=str(path), error=str(error))
            _remove(path)
            return True
        directory = path.stem
        sent, problem = 0, ""
        when = slot(taken_at=taken_at, spread=snapshot.spread, place=place, of=of)
        pace = Pace(self._bucket, when, sleep=self._finished.wait)
        try:
            sent = self._send(snapshot, pace)
        except Exception as error:  # Whatever it is, the checkpoint waits for an answer.
            problem = _describe(error, self._storage.place)
            log.error(
                "upload failed", topology=snapshot.topology, partition=snapshot.partition, error=problem
            )
        ack = CheckpointAck(
            partition=snapshot.partition,
            checkpoint=snapshot.checkpoint,
            generation=snapshot.generation,
            attempt=snapshot.attempt,
            deployed=snapshot.deployed,
            node=self._node,
            size_bytes=sum(file.bytes for file in snapshot.files),
            uploaded_bytes=sent,
            files=len(snapshot.files),
            duration=round(time.monotonic() - started, 4),
            taken_at=taken_at,
            waited=round(waited, 4),
            cpu_seconds=round(time.thread_time() - processor, 5),
            error=problem,
        )
        if not self._acknowledge(snapshot.topology, ack, directory):
            return False
        _remove(path)
        return True

    def _send(self, snapshot: Snapshot, pace: Pace) -> int:
        """Store what the storage lacks; returns the bytes sent."""
        states = deployment_home(self._home, STATE, snapshot.topology, snapshot.deployed)
        state = states / partition_directory(snapshot.partition)
        manifest = msgspec.json.encode(snapshot.manifest)
        named = decode_manifest(manifest, "the snapshot", epoch=snapshot.checkpoint).files()
        stored = StoredManifest(
            topology=snapshot.topology,
            deployed=snapshot.deployed,
            partition=snapshot.partition,
            checkpoint=snapshot.checkpoint,
            generation=snapshot.generation,
            attempt=snapshot.attempt,
            manifest=msgspec.Raw(manifest),
        )
        files = [(entry, state / entry.name) for entry in named]
        try:
            return self._storage.store(stored, files, pace if snapshot.spread else None)
        finally:
            pace.tell()


def read_snapshot(path: Path, root: Path) -> Snapshot:
    """A snapshot that a task left below `root`. Raises ValueError if it is damaged or not of its path."""
    snapshot = decode(unseal(path.read_bytes(), str(path)), Snapshot)
    # Snapshots of versions before this one name no deployment, and some no attempt.
    said = [snapshot_path(root.parent, snapshot).relative_to(root)]
    for _ in range(2):
        said.append(said[-1].parent.with_name(said[-1].parent.name.rpartition(".")[0]) / path.name)
    if path.relative_to(root) not in said:
        raise DamagedError(f"{path} is the snapshot of {said[0]}")
    return snapshot


def waiting_snapshots(root: Path) -> Iterator[Path]:
    """Complete snapshots, `<topology>/<k>.<generation>.<attempt>.<deployed>/<partition>.json`: the oldest
    checkpoint first, and of one checkpoint the oldest attempt."""
    found: list[Path] = []
    with contextlib.suppress(FileNotFoundError):
        for checkpoint in list(root.glob("*/*")):
            # Its last snapshot takes it along: then there is none of it, but there are those of the others.
            with contextlib.suppress(FileNotFoundError):
                found += checkpoint.glob("*.json")
    yield from sorted(found, key=_age)


def newest_snapshots(root: Path) -> dict[Path, list[Path]]:
    """Those to upload, the oldest checkpoint first, each with the older ones of the same partition and
    checkpoint: where operators are not deterministic these are of a history that was undone."""
    found: dict[tuple[str, str, int, int], list[Path]] = {}
    for path in waiting_snapshots(root):
        found.setdefault(_of(path), []).append(path)
    return {paths[-1]: paths[:-1] for paths in found.values()}


def _numbers(path: Path) -> tuple[int, ...]:
    """Checkpoint, generation, attempt and deployment; versions before this one did not name all."""
    numbers = [int(one) if one.isascii() and one.isdigit() else 0 for one in path.parent.name.split(".")]
    return tuple([*numbers, 0, 0, 0][:4])


def _age(path: Path) -> tuple[tuple[int, ...], str]:
    return (_numbers(path), path.name)


def _of(path: Path) -> tuple[str, str, int, int]:
    """Topology, partition, checkpoint and deployment."""
    checkpoint, _, _, deployed = _numbers(path)
    return (path.parent.parent.name, path.name, checkpoint, deployed)


def _describe(error: Exception, place: str) -> str:
    if isinstance(error, StorageError | DamagedError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename2 or error.filename or place} (storage {place})"
    return f"{type(error).__name__}: {error} (storage {place})"


def _give_way() -> None:
    """This thread, not its process; on Linux only, where a thread has a priority of its own."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + NICENESS)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    # The last partition of a checkpoint takes the directory with it.
    with contextlib.suppress(OSError):
        path.parent.rmdir()
