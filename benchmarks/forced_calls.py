"""Which files and directories the Python processes of a data plane force to disk, and how long that takes.

`counting` gives an environment in which every Python process, the agents, the driver and the workers of
executors included, writes a line for each call into one file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from host.environment import ROOT

VARIABLE = "BENCHMARK_FORCED_CALLS"
# Python imports a module of this name when it starts.
SITE = "sitecustomize.py"
CONTENT, NAMES = "fdatasync", "fsync"


@dataclass(frozen=True, slots=True)
class Forced:
    """Seconds of each call: `files` of those that forced what a file holds, `directories` of those that
    forced the names in a directory."""

    files: tuple[float, ...] = ()
    directories: tuple[float, ...] = ()


@contextmanager
def counting() -> Iterator[tuple[Mapping[str, str], Path]]:
    """Variables for processes, and the file in which they count."""
    with TemporaryDirectory(prefix="resurge-forced-") as name:
        directory = Path(name)
        (directory / SITE).write_text(f"from {__name__} import count\n\ncount()\n", encoding="utf-8")
        calls = directory / "calls"
        calls.touch()
        yield {"PYTHONPATH": f"{ROOT}{os.pathsep}{directory}", VARIABLE: str(calls)}, calls


def forced_since(calls: Path, offset: int) -> Forced:
    """What was forced since the file had this size."""
    with open(calls, "rb") as stream:
        stream.seek(offset)
        lines = [line.split() for line in stream.read().decode().splitlines()]
    return Forced(
        files=tuple(float(seconds) for kind, seconds in lines if kind == CONTENT),
        directories=tuple(float(seconds) for kind, seconds in lines if kind == NAMES),
    )


def count() -> None:
    """From now on this process writes down each call, if its environment says where."""
    if calls := os.environ.get(VARIABLE):
        for kind in (CONTENT, NAMES):
            setattr(os, kind, _counted(getattr(os, kind), kind, calls))


def _counted(call: Callable[[Any], None], kind: str, calls: str) -> Callable[[Any], None]:
    def counted(descriptor: Any) -> None:
        started = time.perf_counter()
        call(descriptor)
        line = f"{kind} {time.perf_counter() - started:.6f}\n".encode()
        # Opened for each line: processes close what they have inherited. Short lines of several processes do
        # not mix where all append.
        stream = os.open(calls, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.write(stream, line)
        finally:
            os.close(stream)

    return counted
