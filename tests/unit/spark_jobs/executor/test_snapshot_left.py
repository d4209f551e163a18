"""What a task leaves for the agent of its node at the end of a checkpoint's epoch."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from domain.execution.job import Job, Layout
from domain.messages import Snapshot
from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec
from spark_jobs.executor.level_context import LevelContext
from spark_jobs.state.sealed import unseal
from spark_jobs.state.store import Manifest

SPEC = TopologySpec(
    name="t",
    operators=(
        OperatorSpec(name="S", kind="source"),
        OperatorSpec(name="V", kind="union", inputs=(InputSpec(source="S"),), output=True),
    ),
)


def test_a_snapshot_is_of_its_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_HOME", str(tmp_path / "node-1"))
    layout = Layout(
        spec=SPEC, generation=5, deployed=3, nodes=["node-1"], slots={"S[0]": 0, "V[0]": 0},
        levels={"S[0]": 0, "V[0]": 1}, outputs=str(tmp_path / "outputs"),
        checkpoints=f"file://{tmp_path}/checkpoints", readers={},
    )  # fmt: skip
    job = Job(lane=None, epochs=[], progress={}, checkpoint=7, attempt=4, spread=1.5)
    level = LevelContext(1, 0, msgspec.json.encode(layout), msgspec.json.encode(job))
    level.storage("V[0]").snapshot(Manifest(epoch=7, generation=5))
    (path,) = (tmp_path / "node-1" / "snapshots").rglob("*.json")
    left = msgspec.json.decode(unseal(path.read_bytes(), str(path)), type=Snapshot)
    assert (left.checkpoint, left.generation, left.attempt, left.deployed) == (7, 5, 4, 3)
    assert left.spread == 1.5
