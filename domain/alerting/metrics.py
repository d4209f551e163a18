"""What alert rules can judge: its unit, and the series of `/metrics` that has the same value. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Unit = Literal["times", "seconds", "share", "intervals"]
Subject = Literal["query", "topology"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """noun: as it stands before "of clicks". subject: what has one value of it. series: its name in
    `/metrics`. by_priority: whether a rule can leave out queries below a priority. most: the highest value
    there can be, None if there is none."""

    name: str
    title: str
    noun: str
    unit: Unit
    subject: Subject
    series: str
    about: str
    by_priority: bool = False
    most: float | None = None


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            name="query_relative_latency",
            title="Relative latency of a query",
            noun="relative latency",
            unit="times",
            subject="query",
            series="resurge_query_relative_latency",
            about="latency of a query, 1 being its usual one",
            by_priority=True,
        ),
        Metric(
            name="query_latency",
            title="Latency of a query",
            noun="latency",
            unit="seconds",
            subject="query",
            series="resurge_query_latency_seconds",
            about="seconds from the input to the results of a query",
            by_priority=True,
        ),
        Metric(
            name="availability",
            title="Share of queries available",
            noun="share of queries available",
            unit="share",
            subject="topology",
            series="resurge_availability_share",
            about="priority of the queries that are available, as a share of all that are not parked",
            by_priority=True,
            most=1.0,
        ),
        Metric(
            name="lag",
            title="Lag",
            noun="lag",
            unit="seconds",
            subject="topology",
            series="resurge_current_lag_seconds",
            about="seconds of input that wait to be processed",
        ),
        Metric(
            name="checkpoint_age",
            title="Age of the newest checkpoint",
            noun="age of the newest checkpoint",
            unit="seconds",
            subject="topology",
            series="resurge_checkpoint_age_seconds",
            about="seconds since the newest complete checkpoint ended, or since the topology was deployed",
        ),
        Metric(
            name="checkpoint_intervals",
            title="Age of the newest checkpoint in checkpoint intervals",
            noun="age of the newest checkpoint",
            unit="intervals",
            subject="topology",
            series="resurge_checkpoint_age_intervals",
            about="the same age, divided by the time from one checkpoint of the topology to the next",
        ),
        Metric(
            name="fidelity",
            title="Fidelity now",
            noun="fidelity",
            unit="share",
            subject="topology",
            series="resurge_fidelity",
            about="share of what the outputs are worth that the present nodes give",
            most=1.0,
        ),
        Metric(
            name="fidelity_rack_loss",
            title="Fidelity after the worst loss of a rack",
            noun="fidelity after the worst loss of a rack",
            unit="share",
            subject="topology",
            series="resurge_fidelity_worst_rack",
            about="share of what the outputs are worth that would be left without the rack that matters most",
            most=1.0,
        ),
    )
}
"""By name."""


def value_words(unit: Unit, value: float | None) -> str:
    """`35 s`, `2.40×`, `85 %`; `no data` without a value."""
    if value is None:
        return "no data"
    match unit:
        case "times":
            return f"{value:.2f}×"
        case "seconds":
            return f"{value:,.0f} s" if value >= 10 else f"{value:.3g} s"
        case "share":
            shown = 100 * value
            # Neither all nor nothing may be said of what is a little less or more.
            shown = min(shown, 99.9) if value < 1 else shown
            shown = max(shown, 0.1) if value > 0 else shown
            return f"{shown:.3g} %"
        case "intervals":
            return f"{value:.3g} intervals"
