"""Late rows as operators of the product see them: one problem with a count, and a list."""

from __future__ import annotations

from pathlib import Path

import msgspec

from domain.execution.job import LateRow, PartitionReport, TaskReport
from domain.messages import ProblemReport
from domain.topology import InputSpec, OperatorSpec, Topology, TopologySpec
from spark_jobs.driver.late_rows import DROPPED, LISTED, PAUSE_S, LateRows
from spark_jobs.sources.problems import CUT

TOPOLOGY = Topology(
    TopologySpec(
        name="t",
        operators=(
            OperatorSpec(name="S", kind="source", parallelism=2, params={"lateness_s": 3}),
            OperatorSpec(name="W", kind="tumbling_window", inputs=(InputSpec(source="S"),), output=True),
        ),
    )
)


class Driver:
    def __init__(self, directory: Path) -> None:
        self.told: list[ProblemReport] = []
        self.rows = LateRows(TOPOLOGY, directory, self.told.append)

    def take(self, at: float, rows: dict[str, list[LateRow]] | None = None, **counts: int) -> None:
        """Counts by partition, as `S0=2` for S[0]."""
        partitions = {
            f"{name[0]}[{name[1]}]": PartitionReport(
                epoch=1, late=count, late_rows=(rows or {}).get(f"{name[0]}[{name[1]}]", [])
            )
            for name, count in counts.items()
        }
        self.rows.take([TaskReport(slot=0, level=0, node="n", partitions=partitions)], at)

    def said(self) -> list[tuple[str, str, int]]:
        found = [(one.where, one.what, one.count) for one in self.told]
        self.told.clear()
        return found


def listed(directory: Path) -> list[dict[str, object]]:
    return [msgspec.json.decode(line) for line in (directory / "late.jsonl").read_bytes().splitlines()]


def test_each_row_is_told_once_however_often_it_is_replayed(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.take(0.0, S0=0, S1=0)
    assert driver.said() == []
    driver.take(1.0, S0=2, S1=1, W0=4)
    assert driver.said() == [("S", CUT, 3), ("W", DROPPED, 4)]
    driver.take(1.0 + PAUSE_S, S0=1, S1=1)  # a partition went back to a checkpoint
    driver.take(2.0 + PAUSE_S, S0=2)
    assert driver.said() == []
    driver.take(3.0 + PAUSE_S, S0=7)
    assert driver.said() == [("S", CUT, 5)]


def test_a_problem_grows_with_pauses_and_is_complete_in_the_end(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.take(0.0, S0=1)
    driver.take(1.0, S0=2)
    driver.take(2.0, S0=5)
    assert driver.said() == [("S", CUT, 1)]
    driver.rows.tell()
    assert driver.said() == [("S", CUT, 4)]
    driver.rows.tell()
    assert driver.said() == []


def test_nothing_waits_when_the_input_has_been_read(tmp_path: Path) -> None:
    """The driver may be killed before it ends, and partitions that have all epochs report no more."""
    driver = Driver(tmp_path)
    driver.take(0.0, S0=1)
    report = PartitionReport(epoch=2, late=3)
    driver.rows.take([TaskReport(slot=0, level=0, node="n", partitions={"S[0]": report})], 1.0, final=True)
    assert driver.said() == [("S", CUT, 1), ("S", CUT, 2)]


def test_the_hint_names_the_list_and_the_bound(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.take(0.0, S0=1, W0=1)
    source, window = driver.told
    assert str(tmp_path / "late.jsonl") in source.hint
    assert "`lateness_s` (3 s)" in source.hint
    assert source.severity == window.severity == "warning"
    assert "older event times" in window.hint


def test_the_next_driver_tells_only_what_is_new(tmp_path: Path) -> None:
    rows = [LateRow(epoch=3, row=0, ts=5, watermark=9)]
    Driver(tmp_path).take(0.0, {"S[0]": rows}, S0=1)
    again = Driver(tmp_path)
    again.take(0.0, {"S[0]": rows}, S0=1)
    assert again.said() == []
    again.take(PAUSE_S, {"S[0]": [LateRow(epoch=4, row=2, ts=None, watermark=9)]}, S0=2)
    assert again.said() == [("S", CUT, 1)]
    assert listed(tmp_path) == [
        {"partition": "S[0]", "epoch": 3, "row": 0, "ts": 5, "watermark": 9},
        {"partition": "S[0]", "epoch": 4, "row": 2, "ts": None, "watermark": 9},
    ]


def test_the_list_is_bounded_and_survives_damage(tmp_path: Path) -> None:
    many = [LateRow(epoch=1, row=row, ts=1, watermark=9) for row in range(LISTED + 50)]
    Driver(tmp_path).take(0.0, {"S[0]": many}, S0=len(many))
    assert len(listed(tmp_path)) == LISTED
    (tmp_path / "late.jsonl").write_bytes(b'{"partition":"S[0]","epo')
    (tmp_path / "late-told.json").write_bytes(b"{")
    damaged = Driver(tmp_path)
    damaged.take(0.0, S0=3)
    assert damaged.said() == [("S", CUT, 3)]
