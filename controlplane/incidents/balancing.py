"""Moving partitions that run so that the nodes are used evenly and the loss of a rack takes down little: when
an operator asks, or by policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from controlplane.errors import Conflict
from controlplane.events.services import writing
from controlplane.incidents.choices import IncidentTrigger
from controlplane.incidents.loading import deployments_load, machine_load, nodes_load, plans_newest
from controlplane.incidents.models import Incident, RecoveryPlan
from controlplane.incidents.selectors import incidents_open
from controlplane.incidents.services import incident_open_or_grow
from controlplane.nodes.selectors import node_racks
from controlplane.topologies.choices import RebalancingPolicy, TopologyStatus
from controlplane.topologies.models import Topology
from controlplane.topologies.permitted import permit
from controlplane.topologies.selectors import topology_get
from domain.planning.racks import mean_loss, rack_losses, racks_known
from domain.recovery.blocking import load_elsewhere
from domain.recovery.costs import Costs, costs_fix
from domain.recovery.events import RebalanceAsked
from domain.recovery.incident import Deployment, NodeView
from domain.recovery.moving import even_out

SETTLED = timedelta(seconds=60)
"""What a plan has changed must have been measured that long before anything moves by itself."""


@writing
def rebalance_now(*, topology: str, actor: str, reason: str) -> Incident:
    """Move partitions that run so that the nodes are used evenly. Raises `Missing`, or `Conflict` while a
    recovery of the topology is under way and where nothing is to be gained."""
    row = topology_get(topology)
    permit(row, "rebalance")
    incident = incidents_open().select_for_update().first()
    if incident is not None:
        case = machine_load(incident, may_plan=False).cases.get(topology)
        if case is not None and not case.may_move:
            raise Conflict(
                f"incident {incident.number} is recovering topology {topology!r}: ask again when it has ended"
            )
    moves = _moves(topology, _situation(plans_newest()))
    if not moves:
        raise Conflict(
            f"topology {topology!r} is balanced: no move would shorten its epochs enough, or enough reduce "
            "what the loss of a rack takes down"
        )
    return _open(topology, moves, actor=actor, reason=reason, trigger=IncidentTrigger.MANUAL)


def rebalance_by_policy() -> Incident | None:
    """Move partitions of one topology whose policy wants that, and of which all is well, if much is to be
    gained; None where nothing moves.

    What is to be gained is reckoned before the transaction, with what is read once for all topologies.
    """
    if incidents_open().exists():
        return None
    newest, candidates = plans_newest(), _candidates()
    names = [name for name in candidates.order_by("name").values_list("name", flat=True) if name in newest]
    settled = [name for name in names if _settled(newest[name])]
    if not settled:
        return None
    found = _situation(newest)
    for name in settled:
        if moves := _moves(name, found, asked=False):
            return _begin(name, moves, generation=newest[name].generation, reason=_why(name, moves, found))
    return None


@writing
def _begin(name: str, moves: dict[str, str], *, generation: int, reason: str) -> Incident | None:
    """Unless something has come between."""
    if incidents_open().exists() or not _candidates().filter(name=name, generation=generation).exists():
        return None
    return _open(name, moves, actor="", reason=reason, trigger=IncidentTrigger.BALANCE)


def _candidates() -> QuerySet[Topology]:
    """Those whose policy wants it, that run, and of which no query is unavailable."""
    rows = Topology.objects.filter(status=TopologyStatus.RUNNING, rebalancing=RebalancingPolicy.AUTOMATIC)
    return rows.exclude(queries__available=False)


def _settled(plan: RecoveryPlan) -> bool:
    """Whether it has been in force for a while."""
    if plan.applied_at is None:
        return False
    # A moment that is still to come is of before the clock was put back.
    return not timedelta(0) <= timezone.now() - plan.applied_at < SETTLED


@dataclass(frozen=True, slots=True)
class _Situation:
    """What is placed where, with the CPU that is measured now. planned: on each node, by all topologies."""

    deployments: Mapping[str, Deployment]
    usable: Sequence[NodeView]
    costs: Costs
    planned: Mapping[str, float]


def _situation(newest: dict[str, RecoveryPlan]) -> _Situation:
    deployments = deployments_load(newest)
    nodes = nodes_load(deployments)
    costs = costs_fix(deployments, nodes, {}, settings.RESURGE.max_utilisation)
    return _Situation(
        deployments=deployments,
        usable=[node for node in nodes.values() if node.usable],
        costs=costs,
        planned=load_elsewhere("", deployments, costs, {}),
    )


def _moves(topology: str, found: _Situation, *, asked: bool = True) -> dict[str, str]:
    """Partition -> node to which it would have to move."""
    if topology not in found.deployments:
        return {}
    return even_out(
        topology,
        deployments=found.deployments,
        usable=found.usable,
        costs=found.costs,
        max_utilisation=settings.RESURGE.max_utilisation,
        failed={},
        asked=asked,
        rack_price=settings.RESURGE.rack_price,
        most=settings.RESURGE.moves_at_once,
        planned=found.planned,
    )


def _why(topology: str, moves: Mapping[str, str], found: _Situation) -> str:
    """What the moves gain: less to lose with a rack, or else time."""
    deployment = found.deployments[topology]
    racks = node_racks()
    before, after = (
        mean_loss(rack_losses(deployment.topology, assignment, racks, deployment.priorities))
        for assignment in (deployment.assignment, {**deployment.assignment, **moves})
    )
    if racks_known(racks, racks) and after < before:
        return (
            f"the loss of a rack would then take down {after:.0%} of the priority on average instead of "
            f"{before:.0%}"
        )
    return "some nodes have much more to do than others"


def _open(
    topology: str, moves: dict[str, str], *, actor: str, reason: str, trigger: IncidentTrigger
) -> Incident:
    now = timezone.now()
    event = RebalanceAsked(at=now.timestamp(), topology=topology, moves=moves, actor=actor, reason=reason)
    return incident_open_or_grow(events=[event], at=now, trigger=trigger)
