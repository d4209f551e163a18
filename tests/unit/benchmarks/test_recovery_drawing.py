"""The figures of the recovery benchmark can be drawn from a part of the results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.recovery.drawing import PANELS, draw
from benchmarks.runner import save

CURVES = {
    "at": [-1.0, 0.0, 1.0],
    "available": [15, 0, 15],
    "weighted": [1.0, 0.0, 1.0],
    "failed_relative": [1.0, 4.0, 1.1],
    "untouched_relative": [1.0, None, 1.0],
}


@pytest.mark.parametrize("parts", ["nothing", "figure 12", "everything"])
def test_a_panel_for_each_figure_that_was_measured(parts: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    row = {"curves": CURVES, "arrivals": [0.5]}
    results: dict[str, Any] = {}
    if parts != "nothing":
        results["figure_12"] = {"methods": {"incremental": row, "blocking": row}}
    if parts == "everything":
        names = {name for _, series in PANELS for _, name, _ in series}
        results["figures_13_to_15"] = {"trials": dict.fromkeys(names, row)}
    drawn = draw(results)
    titles = [axis.get_title(loc="left") for axis in drawn.axes if axis.get_visible()]
    expected = {"nothing": 0, "figure 12": 2, "everything": 2 + len(PANELS)}
    assert len(titles) == expected[parts]
    save(drawn, tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").stat().st_size > 1_000
