"""What the work of topologies costs the nodes that do it, and whether they keep pace with it. Pure: no
Django, no clock."""

from domain.capacity.model import CpuModel, CpuShares, Work
from domain.capacity.saturation import PACE_UNKNOWN, Pace, Saturation
from domain.capacity.windows import WorkWindows

__all__ = ["PACE_UNKNOWN", "CpuModel", "CpuShares", "Pace", "Saturation", "Work", "WorkWindows"]
