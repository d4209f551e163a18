"""Query availability as the papers define it. Pure: no Django, no clock."""

from domain.availability.series import Milestones, Sample, area, milestones, sample
from domain.availability.tracker import AvailabilityTracker, Policy, QueryHealth

__all__ = [
    "AvailabilityTracker",
    "Milestones",
    "Policy",
    "QueryHealth",
    "Sample",
    "area",
    "milestones",
    "sample",
]
