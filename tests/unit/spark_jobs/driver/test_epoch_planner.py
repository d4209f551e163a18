"""Watermarks of epochs: from readers that know them, and from the event times of those that do not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import DataSourceStreamReader

from domain.execution.job import EpochPlan, PartitionReport, TaskReport
from domain.topology import load_topology
from spark_jobs.driver.epoch_log import EpochLog
from spark_jobs.driver.epoch_planner import NO_WATERMARK, EpochPlanner
from spark_jobs.operators.catalogue import OperatorCatalogue

HERE = __name__
SECOND = 1_000_000
NOW = 1_000.0


class Unaware(DataSourceStreamReader):
    """Has offsets of its own and no watermark."""

    def __init__(self, options: dict[str, str]) -> None: ...

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - PySpark's name
        return {"at": 0}

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802 - the older form
        return {"at": 1}

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


def test_the_first_epoch_begins_with_the_watermark_of_its_first_tuple(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "in.parquet")
    origin = datetime.fromtimestamp(100, UTC).isoformat()
    world = World(tmp_path, F={"path": str(tmp_path / "in.parquet"), "rate": 10, "origin": origin})
    first = world.plan()
    assert (first.previous_watermark, first.watermark) == (100 * SECOND, 101 * SECOND)
