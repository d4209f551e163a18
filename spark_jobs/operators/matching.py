"""Matches of regular expressions that come from users, by Python's `re` and within bounds.

Python's engine tries every way to match, which for some patterns takes time exponential in the text's length,
and it cannot be interrupted from another thread. So it runs in a process beside this one, whose
processor time the kernel limits for each batch (`matching_process`). Patterns of the shape ``<mark>(\\w+)``
are matched in one way only and need none of this; `flat_map` does them itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

from spark_jobs.operators import matching_process
from spark_jobs.operators.problems import OperatorError

LONGEST_PATTERN: Final = 1_000
"""Characters."""
BATCH: Final = 1_000_000
"""Characters of text that are matched at once; a text that is longer is a batch by itself."""
SECONDS: Final = 5.0
"""Of processor time for one batch. Ordinary patterns take a tenth of a second."""
COMPILING: Final = 1.0
"""Seconds for reading a pattern."""


class _OutOfTimeError(Exception):
    """The batch used up its processor time."""


def pattern_problems(pattern: str, group: int | str | None, *, simple: bool) -> list[str]:
    """Why `pattern` cannot be used, or has no such group; in sentences for a pipeline's author.

    simple: it has the shape that is read and matched in no time.
    """
    if len(pattern) > LONGEST_PATTERN:
        return [f"pattern has {len(pattern)} characters; at most {LONGEST_PATTERN} are possible"]
    try:
        asked = _asked(pattern, None, None, COMPILING)
        said = matching_process.answer(asked) if simple else _matcher.ask(asked)
    except _OutOfTimeError:
        return [
            f"pattern {pattern!r} takes more than {COMPILING:g} s to read; use smaller sets of characters"
        ]
    except OperatorError as error:
        return [f"pattern {pattern!r} cannot be checked: {error}"]
    if "error" in said:
        return [f"pattern {pattern!r} is no regular expression: {said['error']}"]
    if isinstance(group, str) and group not in said["names"]:
        return [f"pattern {pattern!r} has no group named {group!r}"]
    if isinstance(group, int) and not 0 <= group <= said["groups"]:
        return [f"pattern {pattern!r} has {said['groups']} groups, there is no group {group}"]
    return []


def pattern_matches(
    pattern: str, group: int | str | None, texts: Sequence[str | None]
) -> tuple[list[int], list[str]]:
    """The group's text in every match of `re.finditer`, and the index of the text it is in.

    `group` None means the only group, else the whole match. What is empty, or took no part, is left out.
    Raises `OperatorError`.
    """
    rows: list[int] = []
    keys: list[str] = []
    for first, batch, size in _batches(texts):
        seconds = SECONDS * max(1.0, size / BATCH)
        try:
            found = _matcher.ask(_asked(pattern, group, batch, seconds))
        except _OutOfTimeError:
            raise OperatorError(
                f"the pattern {pattern!r} took more than {seconds:g} s of processor time for {len(batch)}"
                f" rows of {size} characters in all",
                "Write it so that there are not many ways to match the same text: no repetition within a "
                "repetition, as in (a+)+, and no neighbours that match the same, as in \\w*\\w*.",
            ) from None
        if "error" in found:
            raise OperatorError(f"the pattern {pattern!r} cannot be used: {found['error']}", "Correct it.")
        rows += [first + row for row in found["rows"]]
        keys += found["keys"]
    return rows, keys


def _batches(texts: Sequence[str | None]) -> Iterator[tuple[int, list[str], int]]:
    """The index of the first text, the texts, and their characters."""
    first, batch, size = 0, list[str](), 0
    for index, text in enumerate(texts):
        if batch and size + len(text or "") > BATCH:
            yield first, batch, size
            first, batch, size = index, [], 0
        batch.append(text or "")
        size += len(text or "")
    if batch:
        yield first, batch, size


def _asked(
    pattern: str, group: int | str | None, texts: Sequence[str] | None, seconds: float
) -> dict[str, Any]:
    return {"pattern": pattern, "group": group, "texts": texts, "seconds": seconds}


class _Matcher:
    """The process that matches for this one; begun with the first question, and again after it was ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        """What `matching_process` answers. Raises `_OutOfTimeError`, and `OperatorError` if it has failed."""
        # Escaped, because a pattern may hold half of a surrogate pair.
        line = json.dumps(asked).encode() + b"\n"
        with self._lock:
            process = self._running()
            assert process.stdin is not None and process.stdout is not None  # noqa: S101,PT018 - both are pipes
            try:
                process.stdin.write(line)
                process.stdin.flush()
                said = process.stdout.readline()
            except BrokenPipeError:
                said = b""
            if said.endswith(b"\n"):
                return dict(json.loads(said))
            self._process = None
            code = process.wait()
            process.stdout.close()
        if code == -signal.SIGPROF:
            raise _OutOfTimeError
        raise OperatorError(f"the process that matches patterns ended with {code}", "It is started again.")

    def _running(self) -> subprocess.Popen[bytes]:
        # A process that was forked from this one has one of its own, or two would read the same answers.
        if self._process is None or self._owner != os.getpid():
            self._owner = os.getpid()
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", matching_process.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process


_matcher: Final = _Matcher()
