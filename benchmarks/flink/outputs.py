"""What the Flink job has written: which files count, and when each query had got how far.

The name of a file says which run of the job wrote it, from which checkpoint that run was restored, and which
checkpoint precedes its rows. A run is what all subtasks do from one restart of the job to the next. What a
later run, restored from an earlier checkpoint, writes a second time does not count. Pure but for reading
files.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_NAME = re.compile(r"([0-9a-f]+)-r(\d+)-t(\d+)-s\d+-of(\d+)(?:-c(\d+))?\.(rows|progress)")


@dataclass(frozen=True, slots=True)
class Run:
    """`started`: when the first of its subtasks began (Unix milliseconds)."""

    id: str
    restored: int
    started: int


@dataclass(frozen=True, slots=True)
class Written:
    """A file of rows: those of one subtask after checkpoint `after` and before the next."""

    path: Path
    run: str
    after: int


@dataclass(frozen=True, slots=True)
class Reached:
    """At `at` (Unix seconds) the query had taken in all tuples due before `second` (Unix seconds)."""

    at: float
    second: int


def runs(names: Iterable[str]) -> dict[str, Run]:
    """The runs that files are of, by id."""
    found: dict[str, Run] = {}
    for name in names:
        match = _NAME.fullmatch(name)
        if match:
            one = Run(id=match[1], restored=int(match[2]), started=int(match[3]))
            if one.id not in found or one.started < found[one.id].started:
                found[one.id] = one
    return found


def written(paths: Iterable[Path]) -> list[Written]:
    """The files of rows among these."""
    found = []
    for path in paths:
        match = _NAME.fullmatch(path.name)
        if match and match[6] == "rows":
            found.append(Written(path, match[1], int(match[5])))
    return found


def counted(files: Iterable[Written], known: Mapping[str, Run]) -> list[Written]:
    """Those whose rows no later run of the job writes again."""
    return [
        one
        for one in files
        if not any(
            later.started > known[one.run].started and later.restored <= one.after for later in known.values()
        )
    ]


def progress(logs: Mapping[str, Iterable[str]]) -> list[Reached]:
    """How far a query had got and when, from the logs (name -> lines) of its subtasks. A query has got as far
    as the last of its subtasks; what is replayed after a failure does not count a second time."""
    by_run: dict[tuple[str, int], list[dict[int, float]]] = defaultdict(list)
    for name, lines in logs.items():
        match = _NAME.fullmatch(name)
        if match and match[6] == "progress":
            by_run[match[1], int(match[4])].append(_reached(lines))
    steps: list[Reached] = []
    for (_, subtasks), logged in by_run.items():
        if len(logged) == subtasks:
            steps += _together(logged)
    found: list[Reached] = []
    for step in sorted(steps, key=lambda step: (step.at, step.second)):
        if not found or step.second > found[-1].second:
            found.append(step)
    return found


def progress_read(directory: Path) -> list[Reached]:
    """`progress` of the query whose outputs are in `directory`."""
    return progress(_logs(directory))


def complete_to(logs: Mapping[str, Iterable[str]]) -> int | None:
    """Until which second (Unix) the rows that count are complete: as far as the last run had got, which takes
    the place of those before. None if it had got nowhere."""
    known = runs(logs)
    last = max(known.values(), key=lambda one: one.started, default=None)
    if last is None:
        return None
    steps = progress({name: lines for name, lines in logs.items() if name.startswith(f"{last.id}-")})
    return steps[-1].second if steps else None


def complete_read(directory: Path) -> int | None:
    """`complete_to` of the query whose outputs are in `directory`."""
    return complete_to(_logs(directory))


def _logs(directory: Path) -> dict[str, list[str]]:
    return {path.name: path.read_text(encoding="ascii").splitlines() for path in directory.glob("*.progress")}


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
