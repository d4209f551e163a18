"""One reading of the snapshot for everybody who waits for one.

After an outage of the web server all browsers come back at the same moment. Whoever asks while a snapshot is
being read waits for the next one and shares it with all others who wait: nobody gets a state from before the
question, and however many ask, a process reads one snapshot at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from controlplane.events.api.documents import Document
from controlplane.events.snapshot import snapshot_parts


class Shared:
    """Calls `read` for several threads at once."""

    def __init__(self, read: Callable[[], Iterable[bytes]]) -> None:
        self._read = read
        self._turn = threading.Condition()
        self._reading = False
        self._begun = 0
        self._newest: tuple[int, Document] | None = None

    def get(self) -> Document:
        """A document whose reading began after this call. Raises what `read` raises."""
        with self._turn:
            wanted = self._begun + 1
            while True:
                if self._newest is not None and self._newest[0] >= wanted:
                    return self._newest[1]
                if not self._reading:
                    break
                self._turn.wait()
            self._reading = True
            self._begun += 1
            number = self._begun
        try:
            document = Document.of(self._read())
            self._newest = (number, document)
            return document
        finally:
            with self._turn:
                self._reading = False
                self._turn.notify_all()


snapshot = Shared(snapshot_parts)
