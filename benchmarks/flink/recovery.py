"""One recovery of the Flink job: the same quotas, failure and delays of replacements as for Resurge."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.flink.checking import outputs_check, texts_read, texts_write
from benchmarks.flink.cluster import FlinkCluster
from benchmarks.flink.installation import FlinkError, Installation
from benchmarks.flink.measuring import course_of
from benchmarks.flink.outputs import Reached, complete_read, progress_read
from benchmarks.outcome import Outcome
from benchmarks.recovery.course import Course
from host.environment import Delay
from spark_jobs.sources.sample import sample_write

# Parts into which the source is cut, which are shared out evenly among 1 to 6 nodes.
SLICES = 60
BUSY_OVER = 30.0
START = 300.0
SETTLED = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """`spec`: the pipeline as Resurge runs it, for what to expect. `warm_up`: seconds from when the job keeps
    pace to the failure. `seed` and `delay`: of the replacements. `shared`: one operator keeps the newest
    windows for all of O4 to O14."""

    spec: Mapping[str, Any]
    input: Path | None
    rate: int
    nodes: int
    killed: int
    capacity: int
    warm_up: float
    patience: float
    delay: Delay
    seed: str
    priorities: Mapping[str, int]
    shared: bool


@dataclass(slots=True)
class Watched:
    """What was seen from the failure on. `arrived`: nodes by when the JobManager knew them."""

    throttled: float = 0.0
    detected: float | None = None
    due: dict[str, float] = field(default_factory=dict)
    arrived: list[tuple[float, str]] = field(default_factory=list)
    finished: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A failure and what followed. `checkpoints`: completed before it and after."""

    killed: list[str]
    busy: float
    quotas: tuple[float, ...]
    checkpoints: tuple[int, int]
    watched: Watched
    course: Course


def recover(setup: Setup, installation: Installation, note: Callable[[str], None]) -> Outcome:
    """Raises `FlinkError`."""
    with tempfile.TemporaryDirectory(prefix="resurge-flink-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        texts = texts_read(_input(setup, home))
        texts_write(texts, home / "input.texts")
        with _running(setup, installation, home) as (cluster, origin_us):
            seen = _failure(setup, cluster, note)
        directories = [_outputs(cluster, query) for query in setup.priorities]
        verdict = outputs_check(
            setup.spec,
            outputs=cluster.outputs,
            texts=texts,
            rate=setup.rate,
            origin_us=origin_us,
            second=min(complete_read(directory) or 0 for directory in directories),
        )
    return Outcome(
        killed=seen.killed,
        arrived=[moment for moment, _ in seen.watched.arrived],
        busy=seen.busy,
        throttled=seen.watched.throttled,
        course=seen.course,
        verdict=verdict,
        moved=0,
        unfinished=0 if seen.watched.finished else len(seen.course.failed) - len(seen.course.returned),
        checkpoints=seen.checkpoints,
        quotas=seen.quotas,
    )


def archive_make(installation: Installation, setup: Setup, note: Callable[[str], None]) -> None:
    """Have a node write the archive of its classes, once: later ones start in half the CPU time."""
    if installation.archive.is_file():
        return
    note("recording which classes Flink's nodes load")
    with tempfile.TemporaryDirectory(prefix="resurge-flink-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        texts_write(texts_read(_input(setup, home)), home / "input.texts")
        with FlinkCluster(home, installation, nodes=1, capacity=0, make_archive=True) as cluster:
            cluster.node_start("node-1")
            cluster.expect(lambda: cluster.registered(), "node", timeout=60)
            _submit(cluster, home, rate=2000)
            cluster.expect(lambda: cluster.checkpoints().completed >= 1, "checkpoint", timeout=60)


@contextmanager
def _running(setup: Setup, installation: Installation, home: Path) -> Iterator[tuple[FlinkCluster, int]]:
    """A cluster in which the job keeps pace, and the origin of its event time."""
    try:
        with FlinkCluster(home, installation, nodes=setup.nodes, capacity=setup.capacity) as cluster:
            for node in _nodes(setup):
                cluster.node_start(node)
            cluster.expect(
                lambda: len(cluster.registered()) == setup.nodes, f"{setup.nodes} nodes", timeout=START
            )
            origin_us = _submit(cluster, home, rate=setup.rate, shared=setup.shared)
            cluster.expect(lambda: _keeps_pace(setup, cluster), "job that keeps pace", timeout=START)
            yield cluster, origin_us
    except (OSError, httpx.HTTPError) as error:
        raise FlinkError(f"{type(error).__name__}: {error}") from error


def _submit(cluster: FlinkCluster, home: Path, *, rate: int, shared: bool = False) -> int:
    """Run the job; returns the event time of its first tuple, a full second (microseconds)."""
    origin_us = int(time.time() + 2) * 1_000_000
    views = "shared" if shared else "separate"
    arguments = [home / "input.texts", cluster.outputs, rate, origin_us, SLICES, views]
    cluster.submit([str(argument) for argument in arguments])
    return origin_us


def _failure(setup: Setup, cluster: FlinkCluster, note: Callable[[str], None]) -> _Seen:
    time.sleep(max(0.0, setup.warm_up - BUSY_OVER))
    busy = _busy(setup, cluster)
    cluster.expect(lambda: _keeps_pace(setup, cluster), "job that keeps pace", timeout=60)
    quotas = [cluster.quota(node) or 0.0 for node in _nodes(setup)]
    before = cluster.checkpoints().completed
    victims = list(_nodes(setup))[: setup.killed]
    note(f"Flink: killing {', '.join(victims)}; nodes {busy:.0%} busy, {before} checkpoints")
    at = cluster.nodes_kill(*victims)
    killed = [name for name in victims if not cluster.node_runs(name)]
    watched = _watch(setup, cluster, victims, at)
    quotas += [cluster.quota(name) or 0.0 for _, name in watched.arrived]
    return _Seen(
        killed=killed,
        busy=busy,
        quotas=tuple(quotas),
        checkpoints=(before, cluster.checkpoints().completed - before),
        watched=watched,
        course=_course(setup, cluster, at, watched),
    )


def _watch(setup: Setup, cluster: FlinkCluster, victims: list[str], at: float) -> Watched:
    """Bring up replacements when they are due, until all is well again or patience ends."""
    watched, well_since = Watched(), None
    periods = {node: cluster.periods(node) for node in _nodes(setup) if node not in victims}
    deadline, looked = time.monotonic() + setup.patience, time.monotonic()
    while time.monotonic() < deadline:
        now, known = time.time(), cluster.registered()
        if watched.detected is None and known and not known & set(victims):
            # The request for a node of Resurge is named like this: the same seed gives the same delay.
            watched.detected = now
            for number, victim in enumerate(victims, start=1):
                chance = random.Random(f"{setup.seed[:8]}/incident-1/{victim}/1")
                watched.due[f"node-{setup.nodes + number}"] = now + setup.delay.draw(chance)
        for name, due in list(watched.due.items()):
            if due <= now:
                cluster.node_start(name)
                periods[name] = cluster.periods(name)
                del watched.due[name]
        joined = {name for _, name in watched.arrived}
        watched.arrived += [(now - at, name) for name in sorted(known - set(_nodes(setup)) - joined)]
        if time.monotonic() - looked >= 2.0:
            looked = time.monotonic()
            watched.throttled = max(watched.throttled, _throttled(cluster, periods))
            well = len(watched.arrived) == len(victims) and _is_well(setup, cluster, at, watched)
            well_since = (well_since or looked) if well else None
            if well_since is not None and looked - well_since >= SETTLED:
                watched.finished = True
                break
        time.sleep(0.25)
    return watched


def _is_well(setup: Setup, cluster: FlinkCluster, at: float, watched: Watched) -> bool:
    """All nodes are used, the job keeps pace, and every query has been available again."""
    if cluster.parallelism() < setup.nodes or not _keeps_pace(setup, cluster):
        return False
    course = _course(setup, cluster, at, watched)
    return len(course.returned) == len(course.failed)


def _course(setup: Setup, cluster: FlinkCluster, at: float, watched: Watched) -> Course:
    return course_of(
        _progress(setup, cluster),
        failed_at=at,
        end=time.time(),
        priorities=setup.priorities,
        arrivals=watched.arrived,
    )


def _throttled(cluster: FlinkCluster, before: dict[str, Any]) -> float:
    """The largest share of periods since the last look in which a node was stopped."""
    largest = 0.0
    for node, earlier in before.items():
        periods = cluster.periods(node)
        if periods is not None and earlier is not None and periods.all > earlier.all:
            largest = max(largest, (periods.throttled - earlier.throttled) / (periods.all - earlier.all))
        before[node] = periods
    return largest


def _busy(setup: Setup, cluster: FlinkCluster) -> float:
    """Share of the quotas that the nodes use, over half a minute: a checkpoint and the longest slide are in
    it."""

    def used() -> float:
        return sum(cluster.cpu_seconds(node) for node in _nodes(setup))

    before, since = used(), time.monotonic()
    time.sleep(BUSY_OVER)
    share = (used() - before) / (time.monotonic() - since)
    return share / (setup.nodes * (setup.capacity or 100) / 100)


def _keeps_pace(setup: Setup, cluster: FlinkCluster) -> bool:
    """A checkpoint is complete, and no query is more than three seconds behind the clock."""
    if not cluster.checkpoints().completed:
        return False
    steps = _progress(setup, cluster)
    return all(steps.values()) and time.time() - min(one[-1].second for one in steps.values()) <= 3.0


def _progress(setup: Setup, cluster: FlinkCluster) -> dict[str, list[Reached]]:
    """Query -> how far it had got and when."""
    return {query: progress_read(_outputs(cluster, query)) for query in setup.priorities}


def _outputs(cluster: FlinkCluster, query: str) -> Path:
    """Where a query (`O3[0]`) writes."""
    return cluster.outputs / query.partition("[")[0]


def _nodes(setup: Setup) -> Iterator[str]:
    return (f"node-{number}" for number in range(1, setup.nodes + 1))


def _input(setup: Setup, home: Path) -> Path:
    if setup.input is not None:
        return setup.input
    path = home / "sample.parquet"
    if not path.is_file():
        sample_write(path)
    return path
