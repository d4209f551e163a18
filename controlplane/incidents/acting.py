"""Where partitions are at home while replicas act for some, of which the newest plan does not know."""

from __future__ import annotations

from controlplane.incidents.models import RecoveryPlan
from controlplane.topologies.models import Topology
from domain.execution.shadows import unknown_now
from domain.messages import Plan


def placed(plan: RecoveryPlan, topology: Topology) -> dict[str, str]:
    """Partition -> node: what the plan runs, and what its driver says has been taken over since."""
    return {**plan.assignment, **taken_over(plan, topology)}


def taken_over(plan: RecoveryPlan, topology: Topology) -> dict[str, str]:
    """Partition -> node: what its driver says has been taken over, and the plan does not know of."""
    known = Plan(generation=plan.generation, kind=plan.kind, assignment=plan.assignment, acting=plan.acting)
    return unknown_now(known, topology.acting, topology.applied_generation)
