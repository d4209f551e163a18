"""Query availability as the papers define it. Pure: no Django, no clock."""

from controlplane.domain.availability.series import Milestones, Sample, area, milestones, sample
from controlplane.domain.availability.tracker import AvailabilityTracker, Policy, QueryHealth

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
