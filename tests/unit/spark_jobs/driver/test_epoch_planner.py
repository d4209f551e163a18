"""Watermarks of epochs: from readers that know them, and from the event times of those that do not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import DataSourceStreamReader

from domain.execution.job import NO_WATERMARK, EpochPlan, PartitionReport, TaskReport
from domain.topology import load_topology
from spark_jobs.driver.epoch_log import EpochLog
from spark_jobs.driver.epoch_planner import EpochPlanner
from spark_jobs.operators.catalogue import OperatorCatalogue
from spark_jobs.sources.problems import SourceError

HERE = __name__
SECOND = 1_000_000
NOW = 1_000.0
ARRIVED: defaultdict[str, int] = defaultdict(lambda: 1)
"""How many rows a reader of this name has."""


class Unaware(DataSourceStreamReader):
    """Has offsets of its own and no watermark."""

    def __init__(self, options: dict[str, str]) -> None:
        self.name = options.get("name", "")

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - PySpark's name
        return {"at": 0}

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802 - the older form
        return {"at": ARRIVED[self.name]}

    def read(self, partition: Any) -> Any:
        return iter(())


class World:
    """A planner on files, and the clock it goes by."""

    def __init__(self, home: Path, **sources: dict[str, Any]) -> None:
        self.home, self.now = home, NOW
        names = list(sources)
        operators: list[dict[str, Any]] = [
            {"name": name, "kind": "source", "params": params} for name, params in sources.items()
        ]
        inputs = [{"from": name, "partitioning": "full", "key": "text"} for name in names]
        operators.append({"name": "U", "kind": "union", "inputs": inputs, "output": True})
        self.topology = load_topology({"name": "t", "operators": operators}, OperatorCatalogue((HERE,)))
        self.start()

    def start(self) -> None:
        """A driver, perhaps another one."""
        self.log = EpochLog(self.home / "epochs.log")
        self.planner = EpochPlanner(
            topology=self.topology, log=self.log, home=self.home, modules=[HERE], clock=lambda: self.now
        )
        self.planner.prepare(lambda problem: None)
        self.planner.start()

    def plan(self) -> EpochPlan:
        """The next epoch."""
        self.now += self.topology.spec.epoch_interval
        (made,) = self.planner.plan_due(ahead=1, reached=self.log.head)
        return made

    def saw(self, event_time: int | None, partition: str = "S[0]") -> None:
        report = PartitionReport(epoch=1, event_time=event_time)
        self.planner.observe([TaskReport(slot=0, level=0, node="n", partitions={partition: report})])


def own(**params: Any) -> dict[str, Any]:
    return {"reader": f"{HERE}.Unaware", **params}


def test_the_watermark_follows_the_event_times_that_tasks_saw(tmp_path: Path) -> None:
    world = World(tmp_path, S=own(lateness_s=3, pace="fast"))
    first = world.plan()
    assert (first.watermark, first.previous_watermark) == (NO_WATERMARK, NO_WATERMARK)
    world.saw(None)
    world.saw(50 * SECOND)
    world.saw(20 * SECOND, "S[1]")
    second = world.plan()
    assert (second.watermark, second.previous_watermark) == (47 * SECOND, NO_WATERMARK)
    world.saw(49 * SECOND)
    third = world.plan()
    assert (third.watermark, third.previous_watermark) == (47 * SECOND, 47 * SECOND)


def test_a_clock_that_was_put_back_stops_no_input(tmp_path: Path) -> None:
    world = World(tmp_path, S=own())
    for _ in range(3):
        world.plan()
    origin = world.log.origin_us
    world.now -= 3600.0
    world.start()
    assert (world.plan().epoch, world.log.origin_us) == (4, origin)
    world.start()
    made = world.plan()
    assert (made.epoch, made.at) == (5, world.now)


def test_the_next_driver_goes_on_from_the_log(tmp_path: Path) -> None:
    world = World(tmp_path, S=own(pace="fast"))
    world.saw(50 * SECOND)
    assert world.plan().watermark == 40 * SECOND
    world.log.close()
    world.start()
    assert world.plan().watermark == 40 * SECOND
    world.saw(51 * SECOND)
    assert world.plan().watermark == 41 * SECOND


@pytest.mark.parametrize("pace", ["realtime", "fast"])
def test_a_row_from_the_future_does_not_cut_the_present(tmp_path: Path, pace: str) -> None:
    world = World(tmp_path, S=own(lateness_s=2, pace=pace))
    world.saw(5_000 * SECOND)
    assert world.plan().watermark == (4_998 if pace == "fast" else round(NOW) + 1 - 2) * SECOND


def test_a_source_that_gave_nothing_holds_the_watermark_back(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "in.parquet")
    origin = datetime.fromtimestamp(100, UTC).isoformat()
    file = {"path": str(tmp_path / "in.parquet"), "rate": 10, "pace": "fast", "origin": origin}
    world = World(tmp_path, F=file, S=own(lateness_s=0, pace="fast"))
    assert world.plan().watermark == NO_WATERMARK
    world.saw(90 * SECOND)
    assert world.plan().watermark == 90 * SECOND


def test_each_file_has_a_list_of_what_is_not_used_of_it(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", None]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"text": [None, "b"]}), tmp_path / "b.parquet")
    World(tmp_path, A={"path": str(tmp_path / "a.parquet")}, B={"path": str(tmp_path / "b.parquet")})
    directory = tmp_path / "topologies" / "t"
    listed = {path.name: path.read_text() for path in directory.glob("*rejected.jsonl")}
    assert listed == {
        "A.rejected.jsonl": '{"row": 1, "reason": "the text is null"}\n',
        "B.rejected.jsonl": '{"row": 0, "reason": "the text is null"}\n',
    }


def test_the_first_epoch_begins_with_the_watermark_of_its_first_tuple(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "in.parquet")
    origin = datetime.fromtimestamp(100, UTC).isoformat()
    world = World(tmp_path, F={"path": str(tmp_path / "in.parquet"), "rate": 10, "origin": origin})
    first = world.plan()
    assert (first.previous_watermark, first.watermark) == (100 * SECOND, 101 * SECOND)


def test_epochs_follow_the_rates_of_a_file_and_of_its_copy(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", "b"], "ts": [5, 5]}), tmp_path / "in.parquet")
    rates = tmp_path / "rates.csv"
    rates.write_text("minute,requests\n2026-01-01 00:00,120\n2026-01-01 00:01,0\n2026-01-01 00:02,30\n")
    source = {"path": str(tmp_path / "in.parquet"), "arrivals": str(rates), "speedup": 60}
    world = World(tmp_path, F=source)
    ends = [world.plan().slices["F"][1]["tuple"] for _ in range(4)]
    world.log.close()
    rates.unlink()  # a driver that is started anew goes on with the copy
    world.start()
    plans = [world.plan() for _ in range(2)]
    assert [*ends, *(plan.slices["F"][1]["tuple"] for plan in plans)] == [120, 120, 150, 270, 270, 300]
    assert plans[-1].watermark == round(NOW + 6) * SECOND


def test_times_of_the_file_do_not_count_where_rates_are_given(tmp_path: Path) -> None:
    """A row whose time cannot be read is used like the others."""
    pq.write_table(pa.table({"text": ["a", "b"], "ts": [5, None]}), tmp_path / "in.parquet")
    rates = tmp_path / "rates.csv"
    rates.write_text("minute,requests\n2026-01-01 00:00,1\n2026-01-01 00:01,1\n")
    source = {"path": str(tmp_path / "in.parquet"), "arrivals": str(rates)}
    world = World(tmp_path, F=source)
    with pa.memory_map(world.planner.options["F"]["path"]) as mapped:
        assert pa.ipc.open_file(mapped).read_all().to_pydict() == {"text": ["a", "b"]}


def test_rates_that_cannot_be_used_keep_a_driver_from_starting(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "in.parquet")
    (tmp_path / "rates.csv").write_text("minute,requests\n2026-01-01,-1\n")
    for name, message in (("rates.csv", "line 2: -1 is negative"), ("none.csv", "there is no such file")):
        with pytest.raises(SourceError, match=message):
            World(tmp_path, F={"path": str(tmp_path / "in.parquet"), "arrivals": str(tmp_path / name)})


def test_the_sample_of_page_views_is_made_where_there_is_none(tmp_path: Path) -> None:
    params = {"sample": "page_views", "text": "page_id", "partition_by": "server_id", "rate": 10}
    world = World(tmp_path, F=params)
    made = tmp_path / "input" / "page-views.parquet"
    assert pq.read_schema(made).names == ["page_id", "server_id"]
    assert world.plan().slices["F"] == ({"tuple": 0}, {"tuple": 10})


# ---- idle sources --------------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path: Path) -> Iterator[World]:
    """S goes on, and P is idle after 5 s without rows; both have given event times to 100 s."""
    ARRIVED.clear()
    world = World(
        tmp_path,
        S=own(lateness_s=0, options={"name": "S"}),
        P=own(lateness_s=0, options={"name": "P"}, idle_after_s=5),
    )
    world.plan()
    for source in ("S[0]", "P[0]"):
        world.saw(100 * SECOND, source)
    assert world.plan().watermark == 100 * SECOND
    yield world
    ARRIVED.clear()


def later(world: World, seconds: int) -> EpochPlan:
    """S gives rows all the time, whose event times pass by with the clock."""
    for _ in range(seconds):
        ARRIVED["S"] += 1
        made = world.plan()
        world.saw((100 + round(world.now - NOW)) * SECOND, "S[0]")
    return made


def test_an_idle_source_holds_the_watermark_back_no_longer(two: World) -> None:
    held = later(two, 3)
    assert (held.watermark, held.idle) == (100 * SECOND, [])
    idle = later(two, 1)
    assert (idle.watermark, idle.idle) == (105 * SECOND, ["P"])
    assert later(two, 1).watermark == 106 * SECOND


def test_it_counts_again_from_the_epoch_in_which_it_moves(two: World) -> None:
    mark = later(two, 6).watermark
    ARRIVED["P"] += 1
    woken = later(two, 1)
    assert (woken.previous_watermark, woken.watermark, woken.idle) == (mark, mark, [])
    assert later(two, 2).watermark == mark, "until its event times are known"
    two.saw(104 * SECOND, "P[0]")
    assert later(two, 1).watermark == mark, "it never steps back"
    two.saw(109 * SECOND, "P[0]")
    assert (again := later(two, 1)).idle == []
    assert again.watermark == 109 * SECOND


def test_without_the_setting_it_is_waited_for(tmp_path: Path) -> None:
    world = World(tmp_path, S=own(lateness_s=0, options={"name": "S"}), P=own(options={"name": "P"}))
    world.saw(10 * SECOND, "P[0]")
    assert later(world, 100).watermark == 0


def test_where_all_are_idle_the_furthest_counts(tmp_path: Path) -> None:
    ARRIVED.clear()
    world = World(tmp_path, S=own(lateness_s=0, idle_after_s=3), P=own(lateness_s=0, idle_after_s=3))
    world.plan()
    world.saw(70 * SECOND, "S[0]")
    world.saw(90 * SECOND, "P[0]")
    marks = [world.plan().watermark // SECOND for _ in range(4)]
    assert marks == [70, 70, 90, 90]


def test_the_next_driver_knows_which_were_idle(two: World) -> None:
    mark = later(two, 6).watermark
    two.log.close()
    two.start()
    two.saw(150 * SECOND, "S[0]")
    two.now = NOW + 200
    made = two.planner.plan_due(ahead=1, reached=two.log.head)
    assert {(one.watermark > mark, tuple(one.idle)) for one in made} == {(True, ("P",))}
    two.log.close()
    two.start()
    ARRIVED["P"] += 1
    assert two.plan().idle == []


def test_an_engine_that_was_away_makes_no_source_idle(two: World) -> None:
    """What came meanwhile is found at the first question, although no epoch was planned for a minute."""
    two.now += 60
    ARRIVED["P"] += 1
    made = two.planner.plan_due(ahead=1, reached=two.log.head)
    assert len(made) > 50
    assert {(one.watermark, *one.idle) for one in made} == {(100 * SECOND,)}
