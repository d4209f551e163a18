"""When alerts fire and end: rules, measured values and time in; states and notices out. Pure."""

from domain.alerting.metrics import METRICS, Metric, Unit, value_words
from domain.alerting.rules import MISSING, Comparison, MissingData, Rule, alert_words, rule_words
from domain.alerting.silences import Silence, silence_of
from domain.alerting.transitions import Instance, Notice, Out, Outcome, State, Value, step

__all__ = [
    "METRICS",
    "MISSING",
    "Comparison",
    "Instance",
    "Metric",
    "MissingData",
    "Notice",
    "Out",
    "Outcome",
    "Rule",
    "Silence",
    "State",
    "Unit",
    "Value",
    "alert_words",
    "rule_words",
    "silence_of",
    "step",
    "value_words",
]
