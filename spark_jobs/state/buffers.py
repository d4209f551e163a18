"""Output buffers of a partition: what it sent while a target did not follow (adaptive buffering).

Incremental recovery, section 4.2: one FIFO queue for each downstream neighbour, on only during a recovery,
dropped at the next global checkpoint. The queues are files from the start (the page cache is their memory),
`<partition>/<target>/<epoch>.arrow` below `node_home.deployment_home`, each the Arrow IPC blob as it would
have been sent, after its checksum. What several targets are to get is one file with a name for each, and is
sent to those on one node once. Losing them costs time, not rows: what is not buffered, or not as it was
written, is computed again.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from domain.topology import partition_directory
from host.durable import write_or_remove
from spark_jobs.state.node_home import BUFFERS, deployment_home
from spark_jobs.state.sealed import DIGITS, checksum_of


class OutputBuffers:
    """The buffers of all partitions of one deployment of a topology on one node."""

    def __init__(self, home: Path, topology: str, deployed: int) -> None:
        self.directory = deployment_home(home, BUFFERS, topology, deployed)

    def _queue(self, source: str, target: str) -> Path:
        return self.directory / partition_directory(source) / partition_directory(target)

    def append(self, source: str, targets: Sequence[str], epoch: int, payload: bytes) -> None:
        """Keep one epoch's output for each of the targets, as one file with as many names; repeating it gives
        the same."""
        written: Path | None = None
        for target in targets:
            queue = self._queue(source, target)
            queue.mkdir(parents=True, exist_ok=True)
            temporary = queue / f".{epoch}.{os.getpid()}"
            temporary.unlink(missing_ok=True)
            if written is None or not _linked(written, temporary):
                write_or_remove(temporary, checksum_of(payload).encode() + payload)
            written = temporary.rename(queue / f"{epoch}.arrow")

    def alike(self, source: str, targets: Sequence[str], epoch: int) -> list[list[str]]:
        """The targets by file: those together for which the same output was kept at once. Those without any
        are each alone."""
        groups: dict[tuple[int, int] | str, list[str]] = {}
        for target in targets:
            try:
                found = os.stat(self._queue(source, target) / f"{epoch}.arrow")
            except OSError:
                groups[target] = [target]
            else:
                groups.setdefault((found.st_dev, found.st_ino), []).append(target)
        return list(groups.values())

    def read(self, source: str, target: str, epoch: int) -> bytes:
        """Raises FileNotFoundError where the epoch is not buffered, another OSError where it is damaged."""
        path = self._queue(source, target) / f"{epoch}.arrow"
        content = path.read_bytes()
        payload = content[DIGITS:]
        if content[:DIGITS] != checksum_of(payload).encode():
            raise OSError(errno.EIO, "the buffer is not as it was written", str(path))
        return payload

    def clear(self, source: str) -> None:
        """Forget what a partition buffered: it goes back to a checkpoint."""
        shutil.rmtree(self.directory / partition_directory(source), ignore_errors=True)

    def drop(self) -> None:
        """Forget everything: a global checkpoint is complete."""
        shutil.rmtree(self.directory, ignore_errors=True)


def _linked(file: Path, name: Path) -> bool:
    """Give a file another name; False where the file system cannot."""
    try:
        name.hardlink_to(file)
    except OSError:
        return False
    return True
