"""Lines of the product's logs: when each was written, how serious it is, and which of them are wanted. Pure.

Four forms begin a line: that of `host.logs`, structlog's own (agents), and two of Spark. A line without one,
such as those of a traceback, belongs to the line before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

Level = Literal["debug", "info", "warning", "error"]
LEVELS: Final[tuple[Level, ...]] = ("debug", "info", "warning", "error")
LONGEST: Final = 2_000
"""Characters of a line that are shown."""

_WORDS: Final[dict[str, Level]] = {
    "trace": "debug", "debug": "debug", "info": "info", "warn": "warning", "warning": "warning",
    "error": "error", "exception": "error", "critical": "error", "fatal": "error",
}  # fmt: skip
_LEVEL: Final = r"(?P<level>[A-Za-z]+)"
_OURS: Final = re.compile(rf"timestamp='(?P<at>[^']+)' level='{_LEVEL}' ", re.ASCII)
_AGENT: Final = re.compile(rf"(?P<at>\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d) \[{_LEVEL} *\] ", re.ASCII)
_JVM: Final = re.compile(rf"(?P<at>\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d[.,]\d{{3}}) {_LEVEL} ", re.ASCII)
_SPARK: Final = re.compile(rf"(?P<at>\d\d/\d\d/\d\d \d\d:\d\d:\d\d) {_LEVEL} ", re.ASCII)
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_PRINTED: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class LogLine:
    """source: the file's name for a reader. at: None where the file says no time up to this line."""

    source: str
    at: datetime | None
    level: Level
    text: str


def lines_of(source: str, text: str) -> Iterator[LogLine]:
    """The lines of one file, in its order."""
    at: datetime | None = None
    level: Level = "info"
    for line in text.split("\n"):
        plain = _PRINTED.sub("�", _COLOURS.sub("", line.rstrip("\r")).replace("\t", "    "))
        if not plain.strip():
            continue
        begun = _beginning(plain)
        if begun is not None:
            at, level = begun
        shown = plain if len(plain) <= LONGEST else f"{plain[:LONGEST]}…"
        yield LogLine(source, at, level, shown)


def merged(files: Sequence[Iterable[LogLine]]) -> list[LogLine]:
    """The lines of several files by their time. Lines of one file keep their order; those without a time come
    first."""
    ordered: list[tuple[float, int, int, LogLine]] = []
    for number, lines in enumerate(files):
        newest = float("-inf")
        for position, line in enumerate(lines):
            if line.at is not None:
                newest = max(newest, line.at.timestamp())
            ordered.append((newest, number, position, line))
    ordered.sort(key=lambda one: one[:3])
    return [line for *_, line in ordered]


def wanted(line: LogLine, *, text: str, level: Level) -> bool:
    """Whether a line holds the text, in whatever case, and is at least as serious."""
    serious = LEVELS.index(line.level) >= LEVELS.index(level)
    return serious and text.casefold() in line.text.casefold()


def _beginning(line: str) -> tuple[datetime | None, Level] | None:
    """Time and level, if a line begins with them. Times without a zone are of this host."""
    for form, century in ((_OURS, ""), (_SPARK, "20"), (_JVM, ""), (_AGENT, "")):
        found = form.match(line)
        if found is not None and (level := _WORDS.get(found["level"].lower())):
            return _instant(century + found["at"].replace("/", "-").replace(",", ".")), level
    return None


def _instant(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
