"""A reader that does not know its watermark, and rows out of order by more than the source allows, while
nodes, tasks and the driver fail: what is cut follows from the epoch log, and no window is written twice.

The watermark depends on when the driver hears of event times, so two runs may cut different rows. Expected is
therefore what the log of the same run says: each planned epoch with its slices and watermarks.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from domain.execution.job import EpochPlan
from domain.messages import Plan, ProblemReport
from domain.topology import Topology, load_topology
from spark_jobs.driver.epoch_log import EpochLog
from spark_jobs.driver.late_rows import LISTED
from spark_jobs.operators.catalogue import OperatorCatalogue
from spark_jobs.operators.window import SECOND
from spark_jobs.sources.problems import CUT
from tests.outputs import read_outputs
from tests.simulation.engine_drive import drive
from tests.simulation.engine_world import World, schedules
from tests.simulation.test_engine import NODES, live

MODULES: Final = ("tests.simulation",)
LIMIT: Final = 600
AN_EPOCH: Final = 20
LATENESS_S: Final = 2.0
SCHEDULES: Final = 15
Row = tuple[int, str]


def row(number: int) -> Row:
    """Event time in microseconds and key of tuple n: ten a second, up to six seconds late."""
    late = random.Random(number).choice([0.0, 0.0, 0.0, 0.5, 1.5, 6.0])
    return round((number / 10 - late) * SECOND), "abc"[number % 3]


class Slice(InputPartition):
    pass


PAUSE: Final = range(12, 60)
"""The questions for which `Pausing` has nothing new."""
asked = [0]


class Untidy(DataSourceStreamReader):
    """Only what PySpark asks for, and where the input ends."""

    def __init__(self, options: dict[str, str]) -> None:
        self.parallelism = int(options["parallelism"])

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - PySpark's name
        return {"n": 0}

    def latestOffset(self, start: Mapping[str, int], limit: Any) -> dict[str, int]:  # noqa: N802 - PySpark's
        return {"n": min(start["n"] + AN_EPOCH, LIMIT)}

    def finished(self, offset: Mapping[str, int]) -> bool:
        return offset["n"] >= LIMIT

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> Sequence[Slice]:
        """Every other row to every other partition, so that their event times differ."""
        return [Slice((start["n"] + index, end["n"])) for index in range(self.parallelism)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        first, end = partition.value
        rows = [row(number) for number in range(first, end, self.parallelism)]
        columns = {"ts": pa.array([ts for ts, _ in rows], pa.int64()), "key": [key for _, key in rows]}
        yield pa.RecordBatch.from_pydict(columns)


class Pausing(Untidy):
    """Gives rows, then none for a while, then goes on where it was."""

    def latestOffset(self, start: Mapping[str, int], limit: Any) -> dict[str, int]:  # noqa: N802 - PySpark's
        asked[0] += 1
        return dict(start) if asked[0] in PAUSE else super().latestOffset(start, limit)


def pipeline(*, idle_after_s: float | None = None) -> Topology:
    """With `idle_after_s` there is a second source, which pauses."""

    def operator(name: str, kind: str, source: str, **params: Any) -> dict[str, Any]:
        inputs = [{"from": source, "partitioning": "full"}]
        return {"name": name, "kind": kind, "inputs": inputs, "output": True, "params": params}

    params = {"reader": f"{__name__}.Untidy", "lateness_s": LATENESS_S, "pace": "fast"}
    pausing = {**params, "reader": f"{__name__}.Pausing", "idle_after_s": idle_after_s}
    both = {"kind": "union", "inputs": [{"from": name, "partitioning": "full"} for name in ("S", "P")]}
    second = [{"name": "P", "kind": "source", "parallelism": 2, "params": pausing}, {"name": "U", **both}]
    rows = "S" if idle_after_s is None else "U"
    return load_topology(
        {
            "name": "t",
            "catch_up_epochs": 4,
            "operators": [
                {"name": "S", "kind": "source", "parallelism": 2, "params": params},
                *(second if rows == "U" else []),
                operator("A", "sliding_window", rows, size_s=6, slide_s=3),
                operator("B", "tumbling_window", rows, size_s=4) | {"parallelism": 2},
                operator("T", "top_k", "A", k=1),
                operator("V", "latest", "A"),
            ],
        },
        OperatorCatalogue(MODULES),
    )


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> dict[int, EpochPlan]:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    return plans_kept(monkeypatch)


def plans_kept(monkeypatch: pytest.MonkeyPatch) -> dict[int, EpochPlan]:
    """Every epoch that a log is given from now on; the log itself forgets old ones."""
    plans: dict[int, EpochPlan] = {}
    write = EpochLog.plan

    def kept(log: EpochLog, given_plans: list[EpochPlan]) -> None:
        for plan in given_plans:
            assert plan.epoch not in plans, "an epoch was planned twice"
            plans[plan.epoch] = plan
        write(log, given_plans)

    monkeypatch.setattr(EpochLog, "plan", kept)
    return plans


def new_world(root: Path, seed: int, *, idle_after_s: float | None = None) -> World:
    asked[0] = 0
    topology = pipeline(idle_after_s=idle_after_s)
    world = World(root=root, topology=topology, random=random.Random(seed), modules=list(MODULES))
    names = [world.join() for _ in range(NODES)]
    assignment = {p: names[i % NODES] for i, p in enumerate(world.topology.partitions)}
    world.plan = Plan(generation=1, kind="deploy", assignment=assignment)
    return world


def timely_rows(plan: EpochPlan) -> list[Row]:
    slices = [range(start["n"], end["n"]) for start, end in plan.slices.values()]
    rows = [row(number) for numbers in slices for number in numbers]
    return [(ts, key) for ts, key in rows if ts >= plan.previous_watermark]


def windows(plans: Mapping[int, EpochPlan], size_s: int, slide_s: int) -> Counter[tuple[int, int, str, int]]:
    """The rows of a window operator by epoch, window end, key and count, as the log has them."""
    size, slide = size_s * SECOND, slide_s * SECOND
    counted: Counter[tuple[int, str]] = Counter()
    closes: dict[int, int] = {}
    for epoch in sorted(plans):
        for ts, key in timely_rows(plans[epoch]):
            first = ts - ts % slide + slide
            counted.update((end, key) for end in range(first, first + size, slide) if end - size <= ts)
        for end, _ in counted:
            if end <= plans[epoch].watermark or plans[epoch].final:
                closes.setdefault(end, epoch)
    return Counter((closes[end], end, key, count) for (end, key), count in counted.items())


def written(root: Path, operator: str) -> Counter[tuple[int, int, str, int]]:
    table = read_outputs(root / "outputs", "t", operator)
    ends = table.column("window_end").cast(pa.int64()).to_pylist()
    names = [table.column(name).to_pylist() for name in ("key", "count")]
    return Counter(zip(table.column("epoch").to_pylist(), ends, *names, strict=True))


def require_exact(world: World, plans: Mapping[int, EpochPlan]) -> int:
    """Returns how many rows were cut."""
    read = sum(end["n"] - start["n"] for p in plans.values() for start, end in p.slices.values())
    assert read == LIMIT * len(world.topology.sources)
    sliding = windows(plans, 6, 3)
    assert written(world.root, "A") == sliding
    assert written(world.root, "B") == windows(plans, 4, 4)
    best = {
        (epoch, end): max((count, key) for e, o, key, count in sliding if (e, o) == (epoch, end))[0]
        for epoch, end, _, _ in sliding
    }
    ranked = {(epoch, end): count for epoch, end, _, count in written(world.root, "T")}
    assert ranked == best
    changes = {end for _, end, _, _ in written(world.root, "V")}
    assert changes <= {end for _, end, _, _ in sliding}
    cut = read - sum(len(timely_rows(plan)) for plan in plans.values())
    told = [one for one in world.messages if isinstance(one, ProblemReport) and one.what == CUT]
    assert sum(one.count for one in told) == cut
    listed = (world.root / "topologies" / "t" / "late.jsonl").read_bytes().splitlines()
    if len(world.topology.sources) == 1:
        assert len(listed) == cut
    else:  # of the rows that a pause has made late a job names some
        assert 0 < len(listed) <= min(cut, LISTED) or not cut
    return cut


def test_late_rows_of_a_clean_run(tmp_path: Path, planned: dict[int, EpochPlan]) -> None:
    world = new_world(tmp_path, seed=0)
    world.failing = False
    assert drive(world, steps=100_000) == "completed"
    assert require_exact(world, planned) > LIMIT // 20


@schedules(SCHEDULES)
@given(seed=st.integers(0, 2**32))
def test_what_is_cut_follows_from_the_log(
    tmp_path_factory: pytest.TempPathFactory, planned: dict[int, EpochPlan], seed: int
) -> None:
    planned.clear()
    world = new_world(tmp_path_factory.mktemp("run"), seed)
    live(world)
    require_exact(world, planned)


# ---- a source that pauses ------------------------------------------------------------------------

IDLE_AFTER_S: Final = 1.0
"""By the clock of the driver, which goes on by 0.05 s each time that it is read."""


def idle_epochs(plans: Mapping[int, EpochPlan]) -> list[EpochPlan]:
    return [plan for plan in plans.values() if "P" in plan.idle]


def test_an_idle_source_does_not_hold_windows_open(tmp_path: Path, planned: dict[int, EpochPlan]) -> None:
    """While it is idle windows of the other close, and what it gives behind them later is cut and counted."""
    world = new_world(tmp_path, seed=0, idle_after_s=IDLE_AFTER_S)
    world.failing = False
    assert drive(world, steps=100_000) == "completed"
    idle = idle_epochs(planned)
    assert idle
    assert all(start == end for plan in idle for start, end in [plan.slices["P"]])
    assert idle[-1].watermark - idle[0].previous_watermark > 20 * SECOND
    assert require_exact(world, planned) > LIMIT // 4


def test_a_source_that_must_be_waited_for_loses_nothing(
    tmp_path: Path, planned: dict[int, EpochPlan]
) -> None:
    world = new_world(tmp_path, seed=0, idle_after_s=86_400.0)
    world.failing = False
    assert drive(world, steps=100_000) == "completed"
    assert not idle_epochs(planned)
    assert require_exact(world, planned) < LIMIT // 5


@schedules(SCHEDULES)
@given(seed=st.integers(0, 2**32))
def test_what_is_idle_follows_from_the_log(
    tmp_path_factory: pytest.TempPathFactory, planned: dict[int, EpochPlan], seed: int
) -> None:
    planned.clear()
    world = new_world(tmp_path_factory.mktemp("run"), seed, idle_after_s=IDLE_AFTER_S)
    live(world)
    require_exact(world, planned)
