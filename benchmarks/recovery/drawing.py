"""Figures 12 to 15 as one SVG; panels without results are left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from benchmarks.runner import COLOURS, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Series = list[tuple[str, Mapping[str, Any], str]]
"""Label, result of a recovery, and the curve of it to draw."""

FAILED, UNTOUCHED = "failed_relative", "untouched_relative"


def draw(results: dict[str, Any]) -> Figure:
    panels: list[tuple[str, str, Series]] = []
    methods = results.get("figure_12", {}).get("methods", {})
    if methods:
        panels.append(("Fig. 12: queries available", "queries", _series(methods, "available")))
        panels.append(("Fig. 12: all queries", "mean relative latency", _series(methods, FAILED)))
    trials = results.get("figures_13_to_15", {}).get("trials", {})
    for title, wanted in PANELS:
        series = [(label, trials[name], curve) for label, name, curve in wanted if name in trials]
        if series:
            panels.append((title, "mean relative latency", series))
    rows = max(1, (len(panels) + 1) // 2)
    drawn, axes = figure(2, rows, width=4.6)
    for axis, (title, unit, series) in zip(axes.flat, panels, strict=False):
        for number, (label, row, curve) in enumerate(series):
            values = row["curves"]
            colour = COLOURS[number % len(COLOURS)]
            axis.plot(values["at"], values[curve], color=colour, linewidth=1.2, label=label)
            if curve == "available":
                axis.plot(row["arrivals"], [-0.6 - 0.5 * number] * len(row["arrivals"]), "|", color=colour)
        if curve_is_ratio(unit):
            axis.set_yscale("log")
            axis.axhline(1.2, color="#888888", linewidth=0.6, linestyle=":")
        axis.set_title(title, loc="left", fontsize=9)
        axis.set_xlabel("seconds since the failure")
        axis.set_ylabel(unit)
        axis.legend(fontsize=6, frameon=False)
    for axis in list(axes.flat)[len(panels) :]:
        axis.set_visible(False)
    return drawn


def curve_is_ratio(unit: str) -> bool:
    return unit == "mean relative latency"


def _series(methods: Mapping[str, Mapping[str, Any]], curve: str) -> Series:
    return [(label, row, curve) for label, row in methods.items()]


PANELS: list[tuple[str, list[tuple[str, str, str]]]] = [
    (
        "Fig. 13: two nodes upstream, failed queries",
        [
            ("incremental", "upstream 2, ancestors", FAILED),
            ("blocking", "upstream 2, blocking", FAILED),
        ],
    ),
    (
        "Fig. 13: two nodes downstream, failed queries",
        [
            ("incremental", "downstream 2, ancestors, 1", FAILED),
            ("blocking", "downstream 2, blocking", FAILED),
        ],
    ),
    (
        "Fig. 14: two nodes downstream, ancestors",
        [
            ("failed queries", "downstream 2, ancestors, 1", FAILED),
            ("untouched queries", "downstream 2, ancestors, 1", UNTOUCHED),
        ],
    ),
    (
        "Fig. 14: two nodes downstream, global rollback",
        [
            ("failed queries", "downstream 2, global, 1", FAILED),
            ("untouched queries", "downstream 2, global, 1", UNTOUCHED),
        ],
    ),
    (
        "Fig. 15 (a): downstream first",
        [
            ("2 nodes", "downstream 2, ancestors, 1", FAILED),
            ("4 nodes", "downstream 4, ancestors", FAILED),
            ("8 nodes", "downstream 8, ancestors", FAILED),
        ],
    ),
    (
        "Fig. 15 (b): upstream first",
        [
            ("2 nodes", "upstream 2, ancestors", FAILED),
            ("4 nodes", "upstream 4, ancestors", FAILED),
            ("8 nodes", "upstream 8, ancestors", FAILED),
        ],
    ),
]
