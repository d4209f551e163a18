"""What is done by policy while more comes in than is worked off: partitions move to nodes that have more room
where that is enough, otherwise queries are parked, and return later."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from controlplane.events.services import writing
from controlplane.incidents.choices import IncidentState, IncidentTrigger
from controlplane.incidents.loading import deployments_load, machine_load, nodes_load, plans_newest
from controlplane.incidents.models import Incident
from controlplane.incidents.selectors import incidents_open
from controlplane.incidents.services import incident_open_or_grow
from controlplane.topologies.choices import Desired, OverloadPolicy, RebalancingPolicy, TopologyStatus
from controlplane.topologies.models import Topology
from domain.capacity import Pace
from domain.recovery.costs import costs_fix
from domain.recovery.events import Event, ParkAsked, RebalanceAsked
from domain.recovery.memory import Memory
from domain.recovery.overload import Parking, moves_instead, parking_for

MOVED = "input arrives faster than it is processed, while other nodes have room"


def parking_by_policy() -> list[Incident]:
    """Move partitions or park queries of the topologies that are overloaded, and let return those for which
    there is time."""
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


@writing
def _park(name: str, after: float) -> Incident | None:
    incident = incidents_open().select_for_update().first()
    topology = Topology.objects.select_for_update().filter(name=name).first()
    if topology is None or topology.overload != OverloadPolicy.AUTOMATIC:
        return None
    now = timezone.now()
    # Where all is restored and catches up, moves may be what is missing.
    idle = incident is None or incident.state == IncidentState.CATCHING_UP
    moves = _moves(topology, now, after) if idle else {}
    parking = None if moves else _parking(topology, incident, now, after)
    event: Event
    if moves:
        event = RebalanceAsked(at=now.timestamp(), topology=name, moves=moves, actor="", reason=MOVED)
    elif parking is not None:
        event = ParkAsked(
            at=now.timestamp(),
            topology=name,
            queries=parking.queries,
            actor="",
            reason=parking.reason,
            limits=parking.limits,
        )
    else:
        return None
    return incident_open_or_grow(events=[event], at=now, trigger=IncidentTrigger.OVERLOAD)


def _pace(topology: Topology, incident: Incident | None = None) -> Pace:
    since = topology.overloaded_since
    # With fewer nodes than before, what was usual may never be so again.
    same_nodes = incident is None or incident.trigger == IncidentTrigger.OVERLOAD
    return Pace(
        topology.load,
        topology.lag,
        since.timestamp() if since is not None else None,
        usual=topology.usual_load if same_nodes else None,
        falls=topology.load_falls,
    )


def _overloaded(topology: Topology, now: datetime, after: float) -> bool:
    """For long enough."""
    since = topology.overloaded_since
    return since is not None and now - since >= timedelta(seconds=after)


def _moves(topology: Topology, now: datetime, after: float) -> dict[str, str]:
    """Partition -> node, where moves alone are enough and the policy allows them."""
    if topology.rebalancing != RebalancingPolicy.AUTOMATIC or not _overloaded(topology, now, after):
        return {}
    deployments = deployments_load(plans_newest())
    if topology.name not in deployments:
        return {}
    nodes = nodes_load(deployments)
    bound = settings.RESURGE.max_utilisation
    return moves_instead(
        topology.name,
        deployments,
        usable=[node for node in nodes.values() if node.usable],
        costs=costs_fix(deployments, nodes, {}, bound),
        max_utilisation=bound,
        pace=_pace(topology),
        most=settings.RESURGE.moves_at_once,
    )


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
    return parking_for(
        topology.name,
        deployments,
        usable=[node for node in nodes.values() if node.usable],
        costs=costs,
        pace=_pace(topology, incident),
        overloaded=_overloaded(topology, now, after),
        case=machine.cases.get(topology.name) if machine is not None else None,
        memory=memory,
        now=now.timestamp(),
    )
