"""Output buffers of a partition: what it sent while a target did not follow (adaptive buffering).

Incremental recovery, section 4.2: one FIFO queue for each downstream neighbour, on only during a recovery,
dropped at the next global checkpoint. The queues are files from the start (the page cache is their memory):
`<node home>/buffers/<topology>/<partition>/<target>/<epoch>.arrow`, each the Arrow IPC blob as it would have
been sent. Losing them costs time, not rows: what is not buffered is computed again.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from domain.topology import partition_directory


class OutputBuffers:
    """The buffers of all partitions of one topology on one node."""

    def __init__(self, home: Path, topology: str) -> None:
        self.directory = home / "buffers" / topology

    def _queue(self, source: str, target: str) -> Path:
        return self.directory / partition_directory(source) / partition_directory(target)

    def append(self, source: str, target: str, epoch: int, payload: bytes) -> None:
        """Keep one epoch's output; repeating it gives the same file."""
        queue = self._queue(source, target)
        queue.mkdir(parents=True, exist_ok=True)
        temporary = queue / f".{epoch}.{os.getpid()}"
        temporary.write_bytes(payload)
        temporary.rename(queue / f"{epoch}.arrow")

    def read(self, source: str, target: str, epoch: int) -> bytes:
        """Raises FileNotFoundError where the epoch is not buffered."""
        return (self._queue(source, target) / f"{epoch}.arrow").read_bytes()

    def clear(self, source: str) -> None:
        """Forget what a partition buffered: it goes back to a checkpoint."""
        shutil.rmtree(self.directory / partition_directory(source), ignore_errors=True)

    def drop(self) -> None:
        """Forget everything: a global checkpoint is complete."""
        shutil.rmtree(self.directory, ignore_errors=True)
