"""Figure 16 (a), (b), (c) and the planning time, as one SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.runner import COLOURS, MARKERS, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = {
    "optimal": "optimal (DP)",
    "best_density": "BestDensity",
    "profit_density": "one-pass greedy",
    "operator_centric": "OC",
}


def draw(results: dict[str, Any]) -> Figure:
    """One panel for each part of the figure."""
    drawn, axes = figure(2, 2)
    data = results["figure_16"]
    for axis, part in zip(axes.flat, "abc", strict=False):
        settings = [name for name in data["settings"] if name.startswith(part)]
        for style, name in zip(("-", "--"), settings, strict=True):
            for number, (planner, label) in enumerate(LABELS.items()):
                axis.plot(
                    [100 * fraction for fraction in data["fractions"]],
                    data["settings"][name][planner],
                    style,
                    color=COLOURS[number],
                    marker=MARKERS[number],
                    markersize=3.5,
                    linewidth=1.1,
                    label=f"{label}, {name[3:]}",
                )
        axis.set_title(f"({part})", loc="left")
        axis.set_xlabel("capacity, % of what all failed partitions need")
        axis.set_ylabel("priority recovered")
        axis.set_ylim(0, 1)
        axis.legend(fontsize=5.5, frameon=False)
    axis = axes[1][1]
    rows = results["planning_time"]
    for number, (planner, label) in enumerate(LABELS.items()):
        points = [(row["queries"], row[planner]["seconds"]) for row in rows if planner in row]
        if points:
            axis.loglog(
                *zip(*points, strict=True),
                color=COLOURS[number],
                marker=MARKERS[number],
                markersize=3.5,
                linewidth=1.1,
                label=label,
            )
    axis.set_title("planning time", loc="left")
    axis.set_xlabel("failed queries (ten partitions each)")
    axis.set_ylabel("CPU seconds")
    axis.legend(fontsize=6, frameon=False)
    return drawn
