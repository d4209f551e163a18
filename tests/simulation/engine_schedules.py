"""Random schedules of the whole engine: `python -m tests.simulation.engine_schedules --count 200`. Each seed
runs once for each kind of schedule that the tests of the engine draw."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path

import pytest
import structlog
from rich.progress import track

from tests.simulation import (
    bounded_world,
    engine_drive,
    test_engine,
    test_engine_bounded,
    test_engine_cycles,
    test_engine_late,
    test_engine_marks,
    test_engine_replicas,
    test_engine_savepoints,
    test_engine_versions,
)


@cache
def clean_rows() -> test_engine.Rows:
    """The outputs of the engine without a failure."""
    with tempfile.TemporaryDirectory() as name:
        return test_engine.clean_run(Path(name))


@cache
def clean_marks() -> Counter[str]:
    """Those of operators that are not deterministic, without their marks."""
    with tempfile.TemporaryDirectory() as name:
        return test_engine_marks.clean_run(Path(name))


@cache
def clean_cycles() -> test_engine.Rows:
    """Those of a topology with a cycle."""
    with tempfile.TemporaryDirectory() as name:
        return test_engine_cycles.clean_run(Path(name))


@cache
def clean_savepoints(name: str) -> test_engine_savepoints.Rows:
    """Those of the topologies whose savepoints deployments begin with, by epoch."""
    with tempfile.TemporaryDirectory() as directory:
        return test_engine_savepoints.clean_run(test_engine_savepoints.KINDS[name], Path(directory))


def _failures(root: Path, seed: int) -> None:
    world = test_engine.new_world(root, seed)
    world.freezing = seed % 2 == 1
    test_engine.survive(world, clean_rows())


def _moves(root: Path, seed: int) -> None:
    world = test_engine.new_world(root, seed)
    world.moving = True
    test_engine.survive(world, clean_rows())


def _replicas(root: Path, seed: int) -> None:
    world = test_engine_replicas.new_replicated_world(root, seed, freezing=seed % 2 == 1)
    test_engine.live(world)
    assert test_engine.rows_of(world.root) == clean_rows()


def _late(root: Path, seed: int) -> None:
    _run_late(root, seed, None)


def _idle(root: Path, seed: int) -> None:
    _run_late(root, seed, test_engine_late.IDLE_AFTER_S)


def _run_late(root: Path, seed: int, idle_after_s: float | None) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        plans = test_engine_late.plans_kept(monkeypatch)
        world = test_engine_late.new_world(root, seed, idle_after_s=idle_after_s)
        test_engine.live(world)
        test_engine_late.require_exact(world, plans)


def _cycles(root: Path, seed: int) -> None:
    world = test_engine_cycles.new_world(root, seed)
    world.freezing, world.moving = seed % 2 == 1, seed % 3 == 0
    if seed % 5 < 2:
        world.turning = lambda: test_engine_replicas.replicate(world)
    test_engine.live(world)
    assert test_engine_cycles.rows_of(world.root) == clean_cycles()


def _marks(root: Path, seed: int) -> None:
    world = test_engine_marks.new_world(root, seed)
    world.freezing = seed % 2 == 1
    test_engine_marks.survive(world, clean_marks())


def _repeated(root: Path, seed: int) -> None:
    world = test_engine_marks.new_world(root, seed)
    test_engine_marks.repeat(world, clean_marks(), alone=seed % 2 == 1)


def _savepoints(root: Path, seed: int) -> None:
    """Deployments begin with all savepoints of a run."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        test_engine_savepoints.kill_anywhere(monkeypatch, seed)
        name = "cyclic" if seed % 2 else "acyclic"
        test_engine_savepoints.survive(test_engine_savepoints.KINDS[name], root, seed, clean_savepoints(name))


def _versions(root: Path, seed: int) -> None:
    """Another version goes on, with keys in other partitions."""
    name = sorted(test_engine_savepoints.KINDS)[seed % len(test_engine_savepoints.KINDS)]
    kind = test_engine_savepoints.KINDS[name]
    world = kind.new_world(test_engine_savepoints.made(root / "world"), seed)
    world.computation = 1
    others = [one for one in kind.others if one]
    test_engine_versions.go_on(world, kind, seed, others[seed % len(others)])
    test_engine.live(world)
    assert kind.rows(world.root) == clean_savepoints(name)


def _bounded(root: Path, seed: int) -> None:
    """Rows may be lost, as far as the guarantee permits."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(engine_drive, "PlayedCluster", bounded_world.WatchedCluster)
        world = bounded_world.new_world(root, seed)
        world.freezing = seed % 2 == 1
        test_engine_bounded.live(world)
        test_engine_bounded.checked(world)


KINDS: dict[str, Callable[[Path, int], None]] = {
    "failures": _failures,
    "moves": _moves,
    "replicas": _replicas,
    "cycles": _cycles,
    "late": _late,
    "idle": _idle,
    "marks": _marks,
    "repeated": _repeated,
    "savepoints": _savepoints,
    "versions": _versions,
    "bounded": _bounded,
}


def attempt(seed: int, kinds: Sequence[str] = tuple(KINDS)) -> tuple[int, dict[str, str]]:
    """Seed, and the error of each of these kinds of schedules that failed."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    failed: dict[str, str] = {}
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(time, "sleep", lambda seconds: None)
        for kind, run in ((kind, KINDS[kind]) for kind in kinds):
            with tempfile.TemporaryDirectory() as name:
                try:
                    run(Path(name), seed)
                except Exception:  # the point is to go on and list them all
                    failed[kind] = traceback.format_exc(limit=-6)
    return seed, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--kind", choices=tuple(KINDS), action="append", help="only this one")
    given = parser.parse_args()
    run = partial(attempt, kinds=given.kind or tuple(KINDS))
    failing: list[str] = []
    started = time.monotonic()
    seeds = range(given.first, given.first + given.count)
    with ProcessPoolExecutor(given.processes) as pool:
        for seed, failed in track(pool.map(run, seeds), total=given.count, description="schedules"):
            for kind, problem in failed.items():
                failing.append(f"{kind} {seed}")
                print(f"{kind} {seed}\n{problem}")
    seconds = time.monotonic() - started
    print(f"{given.count} schedules of each kind from seed {given.first} in {seconds:.0f} s")
    print(f"{len(failing)} fail: {', '.join(failing)}" if failing else "none fails")
    return 1 if failing else 0


if __name__ == "__main__":
    sys.exit(main())
