"""What the web process asks the reading process, and what that answers: one JSON text each way."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Self

import msgspec

_CURSOR: Final = re.compile(r"(\d{1,18})\.(\d{1,18})\.(-?\d{1,18}|)\.(\d{1,18})", re.ASCII)


class CursorError(ValueError):
    """A text that is not the `next` of a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Where a page begins.

    deployed: generation of the deployment that the page is of. epoch: only this one and earlier ones; 0 for
    all. window: only windows that ended then or earlier, in microseconds since the Unix epoch; None for rows
    that have no windows. skip: rows to leave out from there, newest first.
    """

    deployed: int
    epoch: int = 0
    window: int | None = None
    skip: int = 0

    @classmethod
    def read(cls, text: str) -> Self:
        """Raises `CursorError` for a text that `__str__` has not made."""
        found = _CURSOR.fullmatch(text)
        if found is None:
            raise CursorError(text)
        deployed, epoch, window, skip = found.groups()
        return cls(
            deployed=int(deployed), epoch=int(epoch), window=int(window) if window else None, skip=int(skip)
        )

    def __str__(self) -> str:
        return f"{self.deployed}.{self.epoch}.{'' if self.window is None else self.window}.{self.skip}"


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """directory: the outputs of the topology. limit: rows. windows: how many to sum up, newest first. masked:
    columns whose values are not to be shown. sample: the file that is read instead of outputs."""

    directory: str
    operator: str
    partition: int
    limit: int
    windows: int = 0
    before: str = ""
    masked: list[str] = []
    sample: str = ""


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """type: text, number, boolean or time; what is none of these is shown as text."""

    name: str
    type: str
    masked: bool = False


class ResultWindow(msgspec.Struct, frozen=True, kw_only=True):
    """start, end: ISO 8601 in UTC. total: sum of the column `count`; None without it. key, count: the row
    with the largest count."""

    start: str | None
    end: str
    rows: int
    total: int | float | None = None
    key: str | None = None
    count: int | float | None = None


class Answer(msgspec.Struct, kw_only=True):
    """deployed, epoch, removed: as in `committed.json`. rows, windows: newest first. next: the cursor of the
    next page, empty after the last one."""

    deployed: int
    epoch: int
    removed: int
    columns: list[Column] = []
    rows: list[dict[str, Any]] = []
    next: str = ""
    windows: list[ResultWindow] = []


class Refusal(msgspec.Struct, kw_only=True):
    """Why there is no answer. absent: there is no `committed.json`. overtaken: the page asked for cannot be
    had any more, but the first one can."""

    message: str
    absent: bool = False
    overtaken: bool = False


class Reply(msgspec.Struct, kw_only=True):
    """One of the two."""

    answer: Answer | None = None
    refusal: Refusal | None = None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Asks what became of tentative rows. directory: the outputs of the topology. deployed: generation of the
    deployment; first, last: the epochs of the rows, both included."""

    directory: str
    operator: str
    partition: int
    deployed: int
    first: int
    last: int


class Compared(msgspec.Struct, kw_only=True):
    """How many tentative rows stayed as they were, changed, or vanished, and how many final ones appeared.
    problem: why that is not known; later: it is going to be, since the driver writes what is missing."""

    stayed: int = 0
    changed: int = 0
    appeared: int = 0
    vanished: int = 0
    problem: str = ""
    later: bool = False


question_decoder = msgspec.json.Decoder(Question)
reply_decoder = msgspec.json.Decoder(Reply)
comparison_decoder = msgspec.json.Decoder(Comparison)
compared_decoder = msgspec.json.Decoder(Compared)
