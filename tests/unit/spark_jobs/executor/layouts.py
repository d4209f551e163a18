"""Layouts of small topologies on one node, and the epochs of their jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from domain.execution.job import EpochPlan, Layout
from domain.topology import TopologySpec
from spark_jobs.sinks.writing import root_mark


def layout_of(spec: TopologySpec, root: Path, *partitions: str, deployed: int = 1, **more: Any) -> Layout:
    """`S[0]` and these partitions on node-1, which sends to them; files are below `root`, where a driver has
    marked the outputs."""
    root_mark(root / "outputs", force=False)
    names = ("S[0]", *partitions)
    return Layout(
        spec=spec,
        generation=deployed,
        deployed=deployed,
        nodes=["node-1"],
        slots=dict.fromkeys(names, 0),
        levels={name: int(name != "S[0]") for name in names},
        outputs=str(root / "outputs"),
        checkpoints=f"file://{root}/checkpoints",
        readers={},
        **more,
    )


def epochs_to(last: int) -> list[EpochPlan]:
    """Epochs 1 to `last`, each a second long."""
    return [
        EpochPlan(epoch=number, slices={}, watermark=0, previous_watermark=0, at=float(number))
        for number in range(1, last + 1)
    ]
