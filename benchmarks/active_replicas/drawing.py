"""Figures 7 to 10 as one SVG; panels without results are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.runner import COLOURS, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Bar = tuple[str, float, int]
"""Label, value, number of its colour."""


def draw(results: dict[str, Any]) -> Figure:
    panels: list[tuple[str, str, list[Bar]]] = []
    kills = results.get("kills", [])
    for rate in sorted({row["rate"] for row in kills}):
        here = [row for row in kills if row["rate"] == rate]
        for number, failure in ((7, "single"), (8, "correlated")):
            rows = [row for row in here if row["failure"] == failure and row["share"] in (0.0, 1.0)]
            bars = [(_label(row), row["output"], row["share"] == 1.0) for row in rows]
            panels.append((f"Fig. {number}: {_failure(failure)}, {rate}/s", "s to output", bars))
        panels.append((f"Fig. 10: all nodes, {rate}/s", "s", _ppa(here)))
    cpu = results.get("cpu", {}).get("intervals", {})
    bars = [(f"{interval} s", row["of_operators"], 0) for interval, row in cpu.items()]
    panels.append(("Fig. 9: checkpoints, each", "CPU / that of operators", bars))
    panels = [panel for panel in panels if panel[2]]
    columns = min(3, max(1, len(panels)))
    drawn, axes = figure(columns, max(1, -(-len(panels) // columns)))
    for axis, (title, unit, bars) in zip(axes.flat, panels, strict=False):
        axis.barh(
            range(len(bars)),
            [value for _, value, _ in bars],
            color=[COLOURS[colour] for _, _, colour in bars],
        )
        axis.set_yticks(range(len(bars)), [label for label, _, _ in bars], fontsize=6)
        axis.invert_yaxis()
        axis.set_title(title, loc="left", fontsize=9)
        axis.set_xlabel(unit)
    for axis in list(axes.flat)[len(panels) :]:
        axis.set_visible(False)
    return drawn


def _label(row: dict[str, Any]) -> str:
    return "replica" if row["share"] == 1.0 else row["technique"]


def _failure(name: str) -> str:
    return "one node" if name == "single" else "all nodes"


def _ppa(rows: list[dict[str, Any]]) -> list[Bar]:
    """As in the paper: what is recovered in all, what the replicas bring back, and tentative output."""
    bars: list[Bar] = []
    for row in rows:
        if row["failure"] != "correlated" or row["interval"] is None:
            continue
        label = f"PPA-{row['share']:g}, {row['interval']:g} s"
        bars.append((label, row["output"], 0))
        for name, colour in (("active", 1), ("tentative", 2)):
            if row["share"] == 0.5 and row[name] is not None:
                bars.append((f"{label}: {name}", row[name], colour))
    return bars
