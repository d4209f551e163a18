"""Figures 12 to 14 of the paper on PPA, as one SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.replication.objectives import IC, OF
from benchmarks.runner import COLOURS, MARKERS, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = 3
Panel = Callable[[Any], None]
"""Draws into an axis."""


def draw(results: dict[str, Any]) -> Figure:
    """A panel for each part of Figure 14, and one for each query of Figures 13 and 12, of what there is."""
    parts = {"figure_14": _figure_14, "figure_13": _figure_13, "accuracy": _accuracy}
    panels = [panel for name, part in parts.items() if name in results for panel in part(results[name])]
    columns = min(COLUMNS, len(panels)) or 1
    drawn, axes = figure(columns, math.ceil(len(panels) / columns) or 1)
    for axis, panel in zip(axes.flat, panels, strict=False):
        panel(axis)
        axis.set_xlabel("replicas, % of all partitions")
        axis.set_ylim(0, 1)
        axis.legend(fontsize=5.5, frameon=False)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    return drawn


def _figure_14(data: dict[str, Any]) -> Iterator[Panel]:
    for part in "abcd":
        yield partial(_part, part=part, data=data)


def _part(axis: Any, part: str, data: dict[str, Any]) -> None:
    settings = [name for name in data["settings"] if name.startswith(part)]
    for style, name in zip(("-", "--"), settings, strict=True):
        _lines(axis, data["ratios"], data["settings"][name], style, f", {name[3:]}")
    axis.set_title(f"14({part})", loc="left")
    axis.set_ylabel("output fidelity")


def _figure_13(data: dict[str, Any]) -> Iterator[Panel]:
    for query, rows in data["queries"].items():
        yield partial(_query, query=query, rows=rows, ratios=data["ratios"])


def _query(axis: Any, query: str, rows: dict[str, list[float]], ratios: list[float]) -> None:
    _lines(axis, ratios, rows, "-", "")
    axis.set_title(f"13, {query}", loc="left")
    axis.set_ylabel("output fidelity")


def _accuracy(data: dict[str, Any]) -> Iterator[Panel]:
    """Figure 12, and the accuracy half of Figure 13, of each query whose accuracy was measured."""
    for draw_panel in (_promises, _planners):
        for query, found in data["queries"].items():
            yield partial(draw_panel, query=query, found=found, shares=data["shares"])


def _promises(axis: Any, query: str, found: dict[str, Any], shares: list[float]) -> None:
    for number, name in enumerate((OF, IC)):
        promised = {name: [point["promised"][name] for point in found["points"]]}
        measured = {name: [point["accuracy"][name] for point in found["points"]]}
        _lines(axis, shares, promised, "--", "", first=number)
        _lines(axis, shares, measured, "-", " plan, accuracy", first=number)
    axis.set_title(f"12, {query}", loc="left")
    axis.set_ylabel("promised and measured")


def _planners(axis: Any, query: str, found: dict[str, Any], shares: list[float]) -> None:
    rows = {
        planner: [math.nan if one["accuracy"] is None else one["accuracy"] for one in mine]
        for planner, mine in found["planners"].items()
    }
    _lines(axis, shares, rows, "-", "")
    axis.set_title(f"13, {query}", loc="left")
    axis.set_ylabel("accuracy")


def _lines(
    axis: Any, ratios: list[float], rows: dict[str, list[float]], style: str, more: str, first: int = 0
) -> None:
    for number, (name, values) in enumerate(rows.items(), start=first):
        axis.plot(
            [100 * ratio for ratio in ratios],
            values,
            style,
            color=COLOURS[number],
            marker=MARKERS[number],
            markersize=3.5,
            linewidth=1.1,
            label=name + more,
        )
