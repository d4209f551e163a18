"""What a task does besides running epochs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from domain.execution.job import Job, Layout, TaskReport
from domain.topology import load_topology
from domain.topology.copies import branch_of, shadow_of
from spark_jobs.executor.task import Level
from spark_jobs.operators.catalogue import catalogue
from spark_jobs.state.store import StateStore

TOPOLOGY = load_topology(
    {
        "name": "counts",
        "operators": [
            {"name": "Source", "kind": "source"},
            {
                "name": "Count",
                "kind": "tumbling_window",
                "inputs": [{"from": "Source"}],
                "params": {"size_s": 1},
                "output": True,
            },
        ],
    },
    catalogue,
)


@pytest.mark.parametrize("copy_of", [branch_of, shadow_of])
def test_a_copy_that_has_ended_since_tasks_were_placed_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copy_of: Any
) -> None:
    monkeypatch.setenv("NODE_HOME", str(tmp_path))
    ended = copy_of("Count[0]")
    layout = Layout(
        spec=TOPOLOGY.spec,
        generation=1,
        nodes=["node-1"],
        slots={"Source[0]": 0, "Count[0]": 0, ended: 0},
        levels={"Source[0]": 0, "Count[0]": 1, ended: 1},
        outputs=str(tmp_path / "outputs"),
        checkpoints=str(tmp_path / "checkpoints"),
        readers={},
        branched=["Count"] if copy_of is branch_of else [],
        shadowed=["Count"] if copy_of is shadow_of else [],
    )
    job = Job(lane=None, epochs=[], progress={"Source[0]": 4, "Count[0]": 4}, trim_below=4)
    level = Level(1, 0, msgspec.json.encode(layout), msgspec.json.encode(job))
    store = level.storage("Count[0]").store
    assert isinstance(store, StateStore)
    for epoch in (1, 2, 3, 4):
        store.commit(store.open(store.manifest(0)), epoch=epoch, generation=1)
    ((_, message),) = level.run()
    assert msgspec.json.decode(message[-1], type=TaskReport).partitions == {}
    assert sorted(path.name for path in store.directory.glob("*.manifest")) == ["4.manifest"]
