"""Which log a driver goes on with: that of its deployment, or a new one; never one that is gone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from domain.execution.job import EpochPlan
from domain.execution.progress import Position
from domain.messages import LatestCheckpoint, Plan
from domain.topology.graph import Topology
from domain.topology.spec import OperatorSpec, TopologySpec
from spark_jobs.driver.assembly import open_log
from spark_jobs.driver.epoch_log import EpochLog, EpochLogError

TOPOLOGY = Topology(TopologySpec(name="t", operators=(OperatorSpec(name="S", kind="source", output=True),)))


class Channel:
    """ZooKeeper after checkpoint 10 of the plan of `generation`, and a plan of the deployment `deployed`."""

    def __init__(self, generation: int, deployed: int) -> None:
        self.plan = Plan(generation=9, kind="recover", assignment={"S[0]": "n1"}, deployed=deployed)
        self.spec = None
        self.latest: LatestCheckpoint | None = LatestCheckpoint(
            checkpoint=10, generation=generation, completed_at=0.0, size_bytes=0
        )

    def reset_checkpoint(self) -> None:
        self.latest = None


def opened(home: Path, channel: Channel, topology: Topology = TOPOLOGY) -> EpochLog:
    settings: Any = SimpleNamespace(
        home=home, outputs=str(home / "outputs"), checkpoints=f"file://{home}/checkpoints", force=False
    )
    coordination: Any = channel
    return open_log(settings, topology, coordination)


def run_before(home: Path, generation: int) -> Path:
    """A run that applied a plan; returns its log."""
    log = EpochLog(home / "topologies" / "t" / "epochs.log")
    log.start(at=1.0, origin_us=1)
    log.plan([EpochPlan(epoch=11, slices={}, watermark=0, previous_watermark=0, at=0.0)])
    log.applied(generation, Position(10, checkpoint=10), {"S[0]": "n1"})
    log.close()
    output = home / "outputs" / "t" / "S" / "partition=0" / "epoch=1" / "part.parquet"
    output.parent.mkdir(parents=True)
    output.write_bytes(b"rows")
    return log.path


def test_the_log_of_the_same_deployment_goes_on(tmp_path: Path) -> None:
    run_before(tmp_path, 7)
    log = opened(tmp_path, Channel(generation=7, deployed=3))
    assert (log.committed, log.generation) == (10, 7)
    log.close()


@pytest.mark.parametrize(("applied", "committed"), [(7, 10), (0, 0)])
def test_a_run_goes_on_where_the_zone_of_the_host_has_changed(
    tmp_path: Path, applied: int, committed: int
) -> None:
    """An `origin` without a zone is another moment then. Before the first plan nothing was run."""
    run_before(tmp_path, applied)
    source = OperatorSpec(name="S", kind="source", output=True, params={"origin": "2026-01-01T00:00:00"})
    channel = Channel(generation=7, deployed=3)
    if not applied:
        channel.latest = None
    log = opened(tmp_path, channel, Topology(TopologySpec(name="t", operators=(source,))))
    assert log.committed == committed
    assert (tmp_path / "outputs" / "t").exists() == bool(applied)
    log.close()


def test_a_log_of_a_later_deployment_than_the_plan_is_not_used(tmp_path: Path) -> None:
    """The database was lost, and the one that took its place counts from 1 again."""
    log = EpochLog(run_before(tmp_path, 7))
    log.deployed = 5
    log.applied(7, log.position, log.homes)
    log.close()
    opened(tmp_path, Channel(generation=7, deployed=5)).close()
    with pytest.raises(EpochLogError, match="is of deployment 5, and the newest plan of 1"):
        opened(tmp_path, Channel(generation=1, deployed=1))


@pytest.mark.parametrize("damage", ["emptied", "gone"])
def test_a_log_that_is_gone_is_not_begun_anew(tmp_path: Path, damage: str) -> None:
    """Epochs would be numbered from 1 again, with outputs and checkpoints of those numbers there."""
    path = run_before(tmp_path, 7)
    path.write_bytes(b"") if damage == "emptied" else path.unlink()
    for _ in range(2):
        with pytest.raises(EpochLogError, match=f"{path} is empty, although checkpoint 10"):
            opened(tmp_path, Channel(generation=7, deployed=3))
    assert (tmp_path / "outputs" / "t").exists()


def test_deploying_again_helps(tmp_path: Path) -> None:
    run_before(tmp_path, 7).write_bytes(b"")
    channel = Channel(generation=7, deployed=8)
    opened(tmp_path, channel).close()
    assert channel.latest is None
    (kept,) = (tmp_path / "outputs").iterdir()
    assert kept.name.startswith("t.until-")
