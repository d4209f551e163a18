"""When an incident, its waves and its queries will be over, with a range, and how that is learned. Pure."""

from domain.forecast.outlook import Expected, Outlook, Pace, PlanView, QueryView, outlook_of
from domain.forecast.record import Prediction, follow, overs
from domain.forecast.spread import PRIOR, Range, Spread

__all__ = [
    "PRIOR",
    "Expected",
    "Outlook",
    "Pace",
    "PlanView",
    "Prediction",
    "QueryView",
    "Range",
    "Spread",
    "follow",
    "outlook_of",
    "overs",
]
