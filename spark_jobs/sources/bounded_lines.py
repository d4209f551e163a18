"""Lines of a file that was not written here: none is taken into memory whatever its length, which in a
compressed file may be a thousand times that of the file."""

from __future__ import annotations

from typing import IO, AnyStr, Final, Generic, Self

LONGEST_ROW: Final = 16 << 20
"""Bytes or characters."""


class RowTooLongError(ValueError):
    """A row has more than `LONGEST_ROW`; the message says so."""


class BoundedLines(Generic[AnyStr]):
    """The lines of `stream`. Several may be one row, as in CSV: `row_ended` is to be called behind each row.
    Raises `RowTooLongError`."""

    def __init__(self, stream: IO[AnyStr]) -> None:
        self._stream: IO[AnyStr] = stream
        self._of_row = 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> AnyStr:
        line = self._stream.readline(LONGEST_ROW + 1)
        self._of_row += len(line)
        if self._of_row > LONGEST_ROW:
            raise RowTooLongError(f"it is longer than {LONGEST_ROW >> 20} MB")
        if not line:
            raise StopIteration
        return line

    def row_ended(self) -> None:
        self._of_row = 0
