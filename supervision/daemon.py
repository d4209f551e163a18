"""supervisord for an installation whose disk may be full: it and what it runs go on, and lose lines of logs.

Where a log cannot be written supervisord tells it on its standard error, which is a file on the same disk. As
that fails as well, it would stop reading what the process says, and end.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TextIO

from supervisor import loggers, supervisord


class Lossy:
    """A stream that loses what cannot be written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return False


class LogHandler(loggers.RotatingFileHandler):
    """Where the next file cannot be begun, the present one goes on."""

    def doRollover(self) -> None:  # noqa: N802 - its name in supervisor
        try:
            super().doRollover()
        except (OSError, ValueError):  # the second: it was closed, and could not be opened
            with contextlib.suppress(OSError):
                self.stream = open(self.baseFilename, "ab")  # noqa: SIM115 - as long as it is logged to


def main() -> None:
    sys.stdout, sys.stderr = Lossy(sys.stdout), Lossy(sys.stderr)
    loggers.RotatingFileHandler = LogHandler
    supervisord.main()


if __name__ == "__main__":
    main()
