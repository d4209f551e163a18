"""What a rule asks for: a condition on a value, and for how long it must hold. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from domain.alerting.metrics import METRICS, value_words

Comparison = Literal["above", "below"]
MissingData = Literal["show", "fire"]
MISSING: tuple[MissingData, ...] = ("show", "fire")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """held: how long the condition must hold before an alert fires. calm: how long it must not hold before
    the alert ends. missing: whether a value that stays away so long fires as well, or is only shown."""

    metric: str
    comparison: Comparison
    threshold: float
    held: timedelta
    calm: timedelta
    missing: MissingData = "show"

    def holds(self, value: float | None) -> bool | None:
        """Whether the condition holds; None where there is no value to tell it from."""
        if value is None:
            return None
        return value > self.threshold if self.comparison == "above" else value < self.threshold


def rule_words(rule: Rule) -> str:
    """`Lag above 30 s for 60 s`."""
    metric = METRICS[rule.metric]
    held = f" for {rule.held.total_seconds():g} s" if rule.held else ""
    return f"{metric.title} {rule.comparison} {value_words(metric.unit, rule.threshold)}{held}"


def alert_words(
    metric_name: str, subject: str, value: float | None, comparison: str, threshold: float
) -> str:
    """`Lag of clicks: 35 s, above 30 s`."""
    metric = METRICS[metric_name]
    said = f"{metric.noun[0].upper()}{metric.noun[1:]} of {subject}: {value_words(metric.unit, value)}"
    return said if value is None else f"{said}, {comparison} {value_words(metric.unit, threshold)}"
