"""What the Flink job has written: which files count, and when each query had got how far.

The name of a file says which attempt of the job wrote it, from which checkpoint that attempt was restored,
and which checkpoint precedes its rows. What a later attempt, restored from an earlier checkpoint, writes a
second time does not count. Pure but for reading files.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_NAME = re.compile(r"a(\d+)-r(\d+)-t(\d+)-s(\d+)-of(\d+)(?:-c(\d+))?\.(rows|progress)")


@dataclass(frozen=True, slots=True, order=True)
class Attempt:
    """One run of the job between two restarts, of `subtasks` subtasks. Attempts are ordered by `number`."""

    number: int
    restored: int
    subtasks: int


@dataclass(frozen=True, slots=True)
class Written:
    """A file of rows: those of one subtask after checkpoint `after` and before the next."""

    path: Path
    attempt: Attempt
    after: int


@dataclass(frozen=True, slots=True)
class Reached:
    """At `at` (Unix seconds) the query had taken in all tuples due before `second` (Unix seconds)."""

    at: float
    second: int


def attempts(names: Iterable[str]) -> list[Attempt]:
    """The attempts that files are of, in order."""
    found = {_attempt(match) for name in names if (match := _NAME.fullmatch(name))}
    return sorted(found)


def written(paths: Iterable[Path]) -> list[Written]:
    """The files of rows among these."""
    found = []
    for path in paths:
        match = _NAME.fullmatch(path.name)
        if match and match[7] == "rows":
            found.append(Written(path, _attempt(match), int(match[6])))
    return found


def counted(files: Iterable[Written], known: Sequence[Attempt]) -> list[Written]:
    """Those whose rows no later attempt of the job writes again."""
    return [
        one
        for one in files
        if not any(later.number > one.attempt.number and later.restored <= one.after for later in known)
    ]


def progress(logs: Mapping[str, Iterable[str]]) -> list[Reached]:
    """How far a query had got and when, from the logs (name -> lines) of its subtasks. A query has got as far
    as the last of its subtasks; what is replayed after a failure does not count a second time."""
    subtasks: dict[Attempt, list[dict[int, float]]] = defaultdict(list)
    for name, lines in logs.items():
        match = _NAME.fullmatch(name)
        if match and match[7] == "progress":
            subtasks[_attempt(match)].append(_reached(lines))
    steps: list[Reached] = []
    for attempt, logged in subtasks.items():
        if len(logged) == attempt.subtasks:
            steps += _together(logged)
    found: list[Reached] = []
    for step in sorted(steps, key=lambda step: (step.at, step.second)):
        if not found or step.second > found[-1].second:
            found.append(step)
    return found


def progress_read(directory: Path) -> list[Reached]:
    """`progress` of the query whose outputs are in `directory`."""
    return progress(
        {path.name: path.read_text(encoding="ascii").splitlines() for path in directory.glob("*.progress")}
    )


def _reached(lines: Iterable[str]) -> dict[int, float]:
    """Second -> when a subtask had got there. The last line may be torn."""
    found: dict[int, float] = {}
    for line in lines:
        fields = line.split()
        if len(fields) == 3 and len(fields[2]) >= 13:
            found.setdefault(int(fields[1]), int(fields[2]) / 1000)
    return found


def _together(logged: Sequence[Mapping[int, float]]) -> list[Reached]:
    """When all subtasks had got to a second; a subtask that jumps over seconds has reached them too."""
    seconds = sorted(set().union(*logged))
    latest = dict.fromkeys(seconds, 0.0)
    for one in logged:
        reached: float | None = None
        for second in reversed(seconds):
            reached = one.get(second, reached)
            latest[second] = max(latest[second], float("inf") if reached is None else reached)
    return [Reached(at, second) for second, at in latest.items() if at != float("inf")]


def _attempt(match: re.Match[str]) -> Attempt:
    return Attempt(number=int(match[1]), restored=int(match[2]), subtasks=int(match[5]))
