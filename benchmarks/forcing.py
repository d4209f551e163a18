"""Two data planes beside each other, one with RESURGE_FORCE_TO_DISK=1 and one with 0.

They run blocks of epochs in turn, so that both are measured in one run, and what drifts meets both. Each has
a process of its own (`python -m benchmarks.forcing`), because a process can have one Spark application only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TextIO

import msgspec

from benchmarks.compact import spread
from benchmarks.engine import advance, hashtags, running
from benchmarks.forced_calls import Forced, counting, forced_since
from benchmarks.runner import Criterion, at_least, at_most
from host.environment import ROOT
from spark_jobs.driver.loop import EpochLoop

NEVER = 1e9
READY = "ready\n"
"""Said once the first plan is applied. What the start forces to disk is in no block."""


class EmptyStage:
    """Takes its records and sends nothing."""

    def __call__(self, slot: int, records: Iterator[Any]) -> Iterator[Any]:
        for _ in records:
            pass
        return iter(())


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """What to run: this many `epochs`, or more until so many `checkpoints` are complete. interval: from now
    on, one every so many seconds; None: as before. single: time each epoch, and after it a job with the same
    stages and tasks, which do nothing."""

    epochs: int = 0
    checkpoints: int = 0
    interval: float | None = None
    single: bool = False


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What a block took. epoch_seconds, empty_seconds: of each epoch and each empty job, if single ones were
    timed."""

    seconds: float
    tuples: int
    epochs: int
    checkpoints: int
    levels: int
    epoch_seconds: list[float] = []
    empty_seconds: list[float] = []


class Side:
    """One of the two data planes. forced: what it forced to disk in its blocks."""

    def __init__(self, process: subprocess.Popen[str], calls: Path) -> None:
        self._process = process
        self._calls = calls
        self.forced = Forced()

    def run(self, block: Block) -> Measured:
        offset = self._calls.stat().st_size
        assert self._process.stdin is not None  # noqa: S101 - both are pipes
        assert self._process.stdout is not None  # noqa: S101
        print(msgspec.json.encode(block).decode(), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the data plane has ended; what it said is above")
        found = forced_since(self._calls, offset)
        self.forced = Forced(
            files=self.forced.files + found.files, directories=self.forced.directories + found.directories
        )
        return msgspec.json.decode(answer, type=Measured)


@contextmanager
def both(source: Mapping[str, Any], **settings: Any) -> Iterator[dict[bool, Side]]:
    """Whether it forces -> data plane; with the pipeline of the main job, as of `hashtags`."""
    with ExitStack() as stack:
        yield {force: stack.enter_context(_side(force, source, settings)) for force in (True, False)}


@contextmanager
def _side(force: bool, source: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[Side]:
    with counting() as (variables, calls):
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.forcing", json.dumps({"source": source, **settings})],
            cwd=ROOT,
            env={**os.environ, **variables, "RESURGE_FORCE_TO_DISK": str(int(force))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:  # closes its input in the end, and waits
            assert process.stdout is not None  # noqa: S101 - a pipe
            if process.stdout.readline() != READY:
                raise RuntimeError("the data plane did not start; what it said is above")
            yield Side(process, calls)


def criteria(sides: Mapping[bool, Side]) -> list[Criterion]:
    """That the one forced files and the other did not."""
    with_forcing, without = sides[True].forced, sides[False].forced
    return [
        at_least("files forced to disk with forcing", len(with_forcing.files), 1),
        at_most("files and directories without", len(without.files) + len(without.directories), 0),
    ]


def described(sides: Mapping[bool, Side]) -> dict[str, Any]:
    """Seconds of the calls."""
    forced = sides[True].forced
    named = {"files": forced.files, "directories": forced.directories}
    return {name: spread(values) for name, values in named.items() if values}


def run_block(loop: EpochLoop, block: Block) -> Measured:
    assert loop.placement.layout is not None  # noqa: S101 - the loop runs
    levels = loop.placement.layout.level_count
    stages = [EmptyStage()] * levels
    checkpoints = loop.machine.checkpoints
    if block.interval is not None:
        checkpoints.set_interval(block.interval, loop.clock())
    complete, latest = 0, checkpoints.latest
    first, tuples = loop.log.committed, 0
    epoch_seconds: list[float] = []
    empty_seconds: list[float] = []
    started = time.perf_counter()
    while loop.log.committed < first + block.epochs or complete < block.checkpoints:
        before = time.perf_counter()
        tuples += advance(loop, 1)
        if block.single:
            middle = time.perf_counter()
            loop.cluster.exchange(stages)
            epoch_seconds.append(middle - before)
            empty_seconds.append(time.perf_counter() - middle)
        if checkpoints.latest != latest:
            complete, latest = complete + 1, checkpoints.latest
    return Measured(
        seconds=time.perf_counter() - started,
        tuples=tuples,
        epochs=loop.log.committed - first,
        checkpoints=complete,
        levels=levels,
        epoch_seconds=epoch_seconds,
        empty_seconds=empty_seconds,
    )


def serve(given: Mapping[str, Any], blocks: Iterable[str], answers: TextIO) -> None:
    """Run the blocks that come as lines, until there are no more."""
    with running(hashtags(**given)) as loop:
        answers.write(READY)
        answers.flush()
        for line in blocks:
            measured = run_block(loop, msgspec.json.decode(line, type=Block))
            print(msgspec.json.encode(measured).decode(), file=answers, flush=True)


if __name__ == "__main__":
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as answering:
        # What else is said, by Java too, is not for the process that waits for answers.
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        serve(json.loads(sys.argv[1]), sys.stdin, answering)
