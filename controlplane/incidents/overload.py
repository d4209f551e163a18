"""Parking queries by policy while more comes in than is worked off, and letting them return."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from controlplane.incidents.choices import IncidentTrigger
from controlplane.incidents.loading import deployments_load, machine_load, nodes_load, plans_newest
from controlplane.incidents.models import Incident
from controlplane.incidents.selectors import incidents_open
from controlplane.incidents.services import incident_open_or_grow
from controlplane.topologies.choices import Desired, OverloadPolicy, TopologyStatus
from controlplane.topologies.models import Topology
from domain.capacity import Pace
from domain.recovery.costs import costs_fix
from domain.recovery.events import ParkAsked
from domain.recovery.memory import Memory
from domain.recovery.overload import Parking, parking_for


def parking_by_policy() -> list[Incident]:
    """Park queries of the topologies that are overloaded, and let return those for which there is time."""
    after = settings.RESURGE.overload_after
    if not after:
        return []
    running = Topology.objects.filter(
        desired=Desired.RUNNING,
        # It recovers as long as the queries that are parked have not returned.
        status__in=(TopologyStatus.RUNNING, TopologyStatus.DEGRADED, TopologyStatus.RECOVERING),
    )
    long_enough = Q(overloaded_since__lte=timezone.now() - timedelta(seconds=after))
    concerned = running.filter(long_enough | Q(queries__parked=True)).distinct()
    names = list(concerned.order_by("name").values_list("name", flat=True))
    return [incident for name in names if (incident := _park(name, after)) is not None]


@transaction.atomic
def _park(name: str, after: float) -> Incident | None:
    incident = incidents_open().select_for_update().first()
    topology = Topology.objects.select_for_update().filter(name=name).first()
    if topology is None or topology.overload != OverloadPolicy.AUTOMATIC:
        return None
    now = timezone.now()
    parking = _parking(topology, incident, now, after)
    if parking is None:
        return None
    event = ParkAsked(
        at=now.timestamp(),
        topology=name,
        queries=parking.queries,
        actor="",
        reason=parking.reason,
        limits=parking.limits,
    )
    return incident_open_or_grow(events=[event], at=now, trigger=IncidentTrigger.OVERLOAD)


def _parking(topology: Topology, incident: Incident | None, now: datetime, after: float) -> Parking | None:
    machine = machine_load(incident, may_plan=False) if incident is not None else None
    if machine is not None and machine.memory.paused:
        return None
    deployments = machine.deployments if machine is not None else deployments_load(plans_newest())
    if topology.name not in deployments:
        return None
    nodes = machine.nodes if machine is not None else nodes_load(deployments)
    memory = machine.memory if machine is not None else Memory()
    costs = {**memory.costs, **costs_fix(deployments, nodes, memory.costs, settings.RESURGE.max_utilisation)}
    since = topology.overloaded_since
    return parking_for(
        topology.name,
        deployments,
        usable=[node for node in nodes.values() if node.usable],
        costs=costs,
        pace=Pace(topology.load, topology.lag, since.timestamp() if since is not None else None),
        overloaded=since is not None and now - since >= timedelta(seconds=after),
        case=machine.cases.get(topology.name) if machine is not None else None,
        memory=memory,
        now=now.timestamp(),
    )
