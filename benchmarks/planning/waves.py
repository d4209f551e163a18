"""Looking ahead over several waves, with the papers' arrivals."""

from __future__ import annotations

import random
import statistics
from dataclasses import replace

from rich.table import Table

from benchmarks.planning.cases import BASE, failed_topology
from benchmarks.runner import Report, Session, at_least, at_most
from domain.planning import Arrival, BestDensity, LookAhead, Planner, forecast

# Eight nodes, each 120 to 360 seconds after its request.
NODES = 8
DELAY = (120.0, 360.0)
HORIZON = 480.0


def look_ahead(session: Session, report: Report) -> None:
    """Plan wave by wave, with the papers' arrivals: `look_ahead` against `best_density`, and both against the
    best schedule in hindsight.

    The planner knows only the expected arrivals; the real ones differ from them.
    """
    names = ("best_density", "look_ahead", "clairvoyant")
    shares: dict[str, list[float]] = {name: [] for name in names}
    undercut = 0
    topologies = report.parameters["look_ahead"]["topologies"]
    with session.progress("Look-ahead", topologies) as advance:
        for seed in range(topologies):
            problem = failed_topology(replace(BASE, queries=15, size=6), seed, 0.0)
            each = sum(problem.costs.tolist()) * 1e-4 / NODES
            rng = random.Random(seed)
            actual = sorted(rng.uniform(*DELAY) for _ in range(NODES))
            arrivals = [Arrival(at, each) for at in actual]

            def planner(coming: tuple[Arrival, ...], left: float, each: float = each) -> Planner:
                """The expected arrivals: evenly spaced over the time in which the papers' nodes arrive."""
                elapsed = HORIZON - left
                begin, end = max(DELAY[0], elapsed), DELAY[1]
                step = (end - begin) / (len(coming) + 1)
                expected = [Arrival(begin + step * (k + 1) - elapsed, each) for k in range(len(coming))]
                return LookAhead(expected, horizon=left)

            myopic = forecast(problem, arrivals, BestDensity(), horizon=HORIZON)
            ahead = forecast(problem, arrivals, planner, horizon=HORIZON)
            best = LookAhead(arrivals, horizon=HORIZON, node_limit=500, time_limit=60.0).clairvoyant(problem)
            first = next(wave for wave in ahead.waves if wave.capacity > 0)
            base = next(wave for wave in myopic.waves if wave.capacity > 0)
            undercut += first.value < base.value
            for name, schedule in zip(names, (myopic, ahead, best), strict=True):
                shares[name].append(schedule.area / best.area)
            advance()
    means = {name: statistics.mean(values) for name, values in shares.items()}
    report.results["look_ahead"] = {"mean_share_of_clairvoyant": means, "shares": shares}
    report.criteria += [
        at_most("look_ahead: first waves below best_density", undercut, 0),
        at_least(
            "look_ahead: availability relative to best_density",
            means["look_ahead"] / means["best_density"],
            1.0,
        ),
        at_least("look_ahead: availability relative to the clairvoyant optimum", means["look_ahead"], 0.9),
        at_least(
            "best_density: availability relative to the clairvoyant optimum", means["best_density"], 0.9
        ),
    ]
    table = Table(title="Area under the availability curve, of the clairvoyant optimum", title_justify="left")
    for column in ("planner", "mean", "worst"):
        table.add_column(column, justify="left" if column == "planner" else "right")
    for name in names[:2]:
        table.add_row(name, f"{100 * means[name]:.2f} %", f"{100 * min(shares[name]):.2f} %")
    report.tables.append(table)
