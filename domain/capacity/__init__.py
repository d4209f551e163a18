"""What the work of topologies costs the nodes that do it. Pure: no Django, no clock."""

from domain.capacity.model import CpuModel, CpuShares, Work
from domain.capacity.windows import WorkWindows

__all__ = ["CpuModel", "CpuShares", "Work", "WorkWindows"]
