"""The Parquet sink: files by epoch, what of them counts, and putting those that are settled in order."""

from __future__ import annotations

import queue
import shutil
import threading
from collections.abc import Collection
from pathlib import Path

import msgspec
import structlog

from domain.topology.spec import ParquetSinkSpec
from host.durable import force_names, remove_abandoned, write_whole
from spark_jobs.sinks.base import SinkError
from spark_jobs.sinks.committed import (
    COMMITTED,
    Committed,
    CommittedError,
    committed_read,
    deployment_directory,
)
from spark_jobs.sinks.compaction import Bounds, compact, remove_replaced, retire, spans_due, spans_found
from spark_jobs.sinks.parquet import OutputFiles
from spark_jobs.sinks.tentative import DIRECTORY as TENTATIVE_ROWS
from spark_jobs.sinks.writing import (
    mount_hint,
    root_mark,
    root_marked,
    writing_close,
    writing_directory,
    writing_open,
)

log = structlog.get_logger()
DAY, GIGABYTE = 86_400.0, 1e9
FORGET_HINT = "Rows that another version did not commit must go before this one goes on. It is tried again."
PREPARE_HINT = "Check that the directory is writable and has space; the driver tries again."
COMMIT_HINT = "Check that the directory is writable and has space; it is written again with the next epoch."


class ParquetSink:
    """See `Sink`. `outputs` is the directory of all topologies. operators: those whose rows leave the
    topology. What is settled is put in order on a thread of its own, which begins with `prepare`."""

    def __init__(
        self,
        outputs: Path,
        topology: str,
        spec: ParquetSinkSpec,
        *,
        operators: Collection[str] = (),
        epoch_interval: float = 1.0,
        force: bool = True,
    ) -> None:
        self._root = outputs
        self._topology = topology
        self._spec = spec
        self._operators = sorted(operators)
        self._force = force
        self._length = max(2, round(spec.compact_s / epoch_interval)) if spec.compact_s else 0
        """Epochs of a span; 0: nothing is compacted, and nothing removed."""
        self._bounds = Bounds(
            age=spec.keep_days * DAY if spec.keep_days else float("inf"),
            size=spec.keep_gb * GIGABYTE if spec.keep_gb else float("inf"),
        )
        self._directory = outputs / topology
        self._files = deployment_directory(self._directory, 0)
        self._writing = writing_directory(self._files, 0)
        self._committed = Committed(topology=topology, deployed=0, epoch=0)
        self._lock = threading.Lock()
        self._settled: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def prepare(self, *, deployed: int, life: int, written: bool = False) -> None:
        """What is stored of an earlier deployment has been put out of the way before."""
        self._files = deployment_directory(self._directory, deployed)
        try:
            before = committed_read(self._directory)
        except CommittedError as error:
            log.warning("outputs are listed anew", error=str(error))
            before = None
        try:
            root_mark(self._root, written=written, force=self._force)
            if before is None or before.deployed == deployed:
                self._move_unmarked()
            self._committed = before or self._listed(deployed)
            if self._committed.deployed != deployed:
                self._committed = Committed(topology=self._topology, deployed=deployed, epoch=0)
            self._writing = writing_open(self._files, life)
        except OSError as error:
            what = f"tasks cannot write there: {error.strerror or error}"
            raise SinkError(str(error.filename or self._files), what, PREPARE_HINT) from error
        self._thread = threading.Thread(target=self._work, name="outputs", daemon=True)
        self._thread.start()

    def forget(self, *, deployed: int, after: int) -> None:
        files = deployment_directory(self._directory, deployed)
        try:
            writing_close(files)
        except OSError as error:
            what = f"it cannot be closed to other tasks: {error.strerror or error}"
            raise SinkError(str(error.filename or files), what, FORGET_HINT) from error
        epochs = "*/partition=*/epoch=*"
        for path in [*files.glob(epochs), *(files / TENTATIVE_ROWS).glob(epochs)]:
            number = path.name.removeprefix("epoch=")
            if number.isdigit() and int(number) > after:
                try:
                    shutil.rmtree(path)
                    if self._force:
                        force_names(path.parent, root=self._root)
                except OSError as error:
                    what = f"it cannot be removed: {error.strerror or error}"
                    raise SinkError(str(path), what, FORGET_HINT) from error

    def outputs(self, *, deployed: int, attempt: int, life: int) -> OutputFiles:
        return OutputFiles(
            self._root, self._topology, deployed=deployed, attempt=attempt, life=life, force=self._force
        )

    def commit(self, *, epoch: int) -> None:
        with self._lock:
            if epoch > self._committed.epoch:
                self._put(msgspec.structs.replace(self._committed, epoch=epoch))

    def settle(self, *, epoch: int) -> None:
        if self._length:
            self._settled.put(epoch)

    def close(self) -> None:
        if self._thread is not None:
            self._settled.put(None)
            self._thread.join(5)

    def _listed(self, deployed: int) -> Committed:
        """What the directories say, where `committed.json` is damaged or was removed."""
        spans = spans_found(self._files)
        removed = spans[0].first - 1 if spans else 0
        return Committed(topology=self._topology, deployed=deployed, epoch=0, removed=removed, spans=spans)

    def _move_unmarked(self) -> None:
        """What a version wrote that had no directory for the deployment is moved into it; repeated after a
        crash."""
        unmarked = [path for name in self._operators if (path := self._directory / name).is_dir()]
        moved = self._directory / f".{self._files.name}"
        if self._files.exists() or not (unmarked or moved.exists()):
            return
        moved.mkdir(exist_ok=True)
        for path in unmarked:
            path.rename(moved / path.name)
        moved.rename(self._files)
        if self._force:
            force_names(self._directory, root=self._root)
        log.info("outputs moved", topology=self._topology, to=str(self._files))

    def _put(self, committed: Committed) -> None:
        """Have readers see this from now on. Called with the lock."""
        path = self._directory / COMMITTED
        if not root_marked(self._root):
            raise SinkError(str(path), "it cannot be written: nothing is there", mount_hint(self._root))
        try:
            write_whole(path, msgspec.json.encode(committed), root=self._root, force=self._force)
        except OSError as error:
            raise SinkError(
                str(path), f"it cannot be written: {error.strerror or error}", COMMIT_HINT
            ) from error
        self._committed = committed

    def _work(self) -> None:
        while (epoch := self._settled.get()) is not None:
            try:
                self.put_in_order(epoch)
            except (OSError, SinkError) as error:
                log.warning("outputs not put in order", topology=self._topology, error=str(error))
            except Exception:  # the next round does what this one did not
                log.exception("outputs not put in order", topology=self._topology)

    def put_in_order(self, settled: int) -> None:
        """One round: what the round before has replaced or retired goes, whole spans become one file, and the
        oldest are retired, also if that failed. settled: see `Sink.settle`."""
        remove_abandoned(self._writing)
        remove_replaced(self._files, self._committed)
        try:
            self._compact(min(settled, self._committed.epoch))
        finally:
            self._retire()

    def _compact(self, settled: int) -> None:
        for first, last in spans_due(self._committed.tail, settled=settled, length=self._length):
            span = compact(self._files, first, last, writing=self._writing, force=self._force)
            with self._lock:
                spans = [*self._committed.spans, span]
                self._put(msgspec.structs.replace(self._committed, spans=spans))
            log.info("outputs compacted", topology=self._topology, first=first, last=last)

    def _retire(self) -> None:
        with self._lock:
            left = retire(self._files, self._committed, self._bounds)
            if left.removed > self._committed.removed:
                self._put(left)
                log.info("old outputs removed", topology=self._topology, up_to=left.removed)
