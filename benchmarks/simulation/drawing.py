"""Available queries and mean relative latency over time (Figure 12), scale, and rollback, as one SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.runner import COLOURS, figure
from benchmarks.simulation.fifteen import GRID

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = {
    "best_case": "best case (all after 3 min)",
    "clairvoyant": "clairvoyant optimum",
    "best_density": "incremental, BestDensity",
    "look_ahead": "incremental, look-ahead",
    "operator_centric": "incremental, OC",
    "blocking": "blocking",
}
STYLES = {"clairvoyant": ":", "look_ahead": "--", "operator_centric": "-."}


def draw(results: dict[str, Any]) -> Figure:
    """Two panels for each load, and one for scale."""
    loads = results["fifteen"]
    drawn, axes = figure(2, len(loads) + 1, width=5.0)
    for line, (load, rows) in zip(axes, loads.items(), strict=False):
        for axis, what in zip(line, ("available", "latency"), strict=True):
            for number, (name, label) in enumerate(LABELS.items()):
                if what in rows[name]:
                    axis.plot(
                        [i * GRID for i in range(len(rows[name][what]))],
                        rows[name][what],
                        STYLES.get(name, "-"),
                        color=COLOURS[number],
                        linewidth=1.2,
                        drawstyle="steps-post" if what == "available" else "default",
                        label=label,
                    )
            axis.set_xlabel("seconds after the failure")
        line[0].set_title(f"nodes {float(load):.0%} busy before", loc="left", fontsize=9)
        line[0].set_ylabel("available queries of 15")
        line[1].set_ylabel("mean relative latency")
        line[0].legend(fontsize=6, frameon=False, loc="lower right")
    _draw_scale(axes[-1][0], results["scale"])
    _draw_rollback(axes[-1][1], results["rollback"])
    return drawn


def _draw_scale(axis: Any, rows: list[dict[str, Any]]) -> None:
    largest = rows[-3:]
    for number, row in enumerate(largest):
        moments, values = zip(*row["curve"], strict=True)
        axis.step(moments, values, where="post", color=COLOURS[number], linewidth=1.2, label=row["algorithm"])
    first = largest[0]
    axis.set_title(
        f"{first['dead']} of {first['nodes']} nodes, {first['partitions']:,} partitions",
        loc="left",
        fontsize=9,
    )
    axis.set_xlabel("seconds after the failure")
    axis.set_ylabel("weighted availability")
    axis.set_ylim(0, 1.02)
    axis.legend(fontsize=6, frameon=False, loc="lower right")


def _draw_rollback(axis: Any, rows: list[dict[str, Any]]) -> None:
    for number, policy in enumerate(("ancestors", "global")):
        mine = [row for row in rows if row["rollback"] == policy]
        axis.bar(
            [i + 0.4 * number - 0.2 for i in range(len(mine))],
            [row["untouched_down"] for row in mine],
            width=0.38,
            color=COLOURS[number],
            label=f"rollback: {policy}",
        )
        axis.set_xticks(range(len(mine)), [f"{row['lost']} of 20" for row in mine])
    axis.set_title("queries that lost nothing", loc="left", fontsize=9)
    axis.set_xlabel("nodes lost")
    axis.set_ylabel("seconds unavailable, mean")
    axis.legend(fontsize=6, frameon=False)
