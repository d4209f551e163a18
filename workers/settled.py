"""Topologies of which ZooKeeper has all that the database wants there, found out for all of them together."""

from __future__ import annotations

from collections.abc import Collection

from django.db.models import Exists, OuterRef, Subquery

from controlplane.incidents.choices import PlanState
from controlplane.incidents.models import RecoveryPlan
from controlplane.incidents.selectors import PLAN_DROPPED
from controlplane.topologies.choices import Desired, TopologyStatus
from controlplane.topologies.former import names_uncleared
from controlplane.topologies.installation import installation_id
from controlplane.topologies.models import Topology
from domain.messages import DeployedSpec
from workers.zookeeper import WorkerSession


def spec_wanted(topology: Topology) -> DeployedSpec:
    return DeployedSpec(
        name=topology.name,
        version=topology.version,
        computation=topology.computation,
        spec=topology.spec,
        desired="running" if topology.desired == Desired.RUNNING else "stopped",
        savepoint=(topology.continues or {}).get("savepoint", ""),
        renewed=topology.renewed,
    )


def topologies_settled(coordination: WorkerSession, names: Collection[str]) -> set[str]:
    """Those for which `topology_reconcile` has nothing to do: they run, and their specification and their
    standing plan are in ZooKeeper. The sweep comes every two seconds, and asking for each of hundreds one
    after the other takes longer than that. What is not certain here is left to `topology_reconcile`."""
    of_topology = RecoveryPlan.objects.filter(topology=OuterRef("pk"))
    standing = of_topology.exclude(PLAN_DROPPED).order_by("-generation")
    rows = Topology.objects.filter(
        Exists(of_topology.filter(created_at__gte=OuterRef("deployed_at"))),
        name__in=names,
        desired=Desired.RUNNING,
    ).exclude(status=TopologyStatus.PAUSED)
    known = rows.annotate(
        standing=Subquery(standing.values("generation")[:1]),
        standing_state=Subquery(standing.values("state")[:1]),
    )
    former, own = names_uncleared(), installation_id()
    wanted = {topology.name: topology for topology in known if topology.name not in former}
    settled: set[str] = set()
    for name, facts in coordination.topology_facts(wanted).items():
        topology, plan = wanted[name], facts.plan
        if plan is None or plan.installation != own or plan.generation != topology.standing:
            continue
        if topology.standing_state != PlanState.PLANNED and facts.spec == spec_wanted(topology):
            settled.add(name)
    return settled
