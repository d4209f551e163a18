"""Figures 13 and 14 of the paper on PPA, as one SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.runner import COLOURS, MARKERS, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(results: dict[str, Any]) -> Figure:
    """A panel for each part of Figure 14, and one for each query of Figure 13."""
    drawn, axes = figure(3, 2)
    panels = iter(axes.flat)
    data = results["figure_14"]
    for part in "abcd":
        settings = [name for name in data["settings"] if name.startswith(part)]
        axis = next(panels)
        for style, name in zip(("-", "--"), settings, strict=True):
            _lines(axis, data["ratios"], data["settings"][name], style, f", {name[3:]}")
        axis.set_title(f"14({part})", loc="left")
    data = results["figure_13"]
    for query, rows in data["queries"].items():
        axis = next(panels)
        _lines(axis, data["ratios"], rows, "-", "")
        axis.set_title(f"13, {query}", loc="left")
    for axis in axes.flat:
        axis.set_xlabel("replicas, % of all partitions")
        axis.set_ylabel("output fidelity")
        axis.set_ylim(0, 1)
        axis.legend(fontsize=5.5, frameon=False)
    return drawn


def _lines(axis: Any, ratios: list[float], rows: dict[str, list[float]], style: str, more: str) -> None:
    for number, (planner, values) in enumerate(rows.items()):
        axis.plot(
            [100 * ratio for ratio in ratios],
            values,
            style,
            color=COLOURS[number],
            marker=MARKERS[number],
            markersize=3.5,
            linewidth=1.1,
            label=planner + more,
        )
