"""Placing topologies that were deployed before there were nodes for them (write side)."""

from __future__ import annotations

from datetime import timedelta

import structlog
from django.utils import timezone

from controlplane.errors import Conflict
from controlplane.events.choices import EventKind
from controlplane.events.services import event_publish, writing
from controlplane.incidents.selectors import placed_since_deploy
from controlplane.lifecycle.deployment import deploy_plan_create
from controlplane.nodes.choices import NODE_USABLE
from controlplane.nodes.models import Node
from controlplane.topologies.choices import Desired, TopologyStatus
from controlplane.topologies.models import Topology
from controlplane.topologies.problems import problem_record
from controlplane.topologies.representation import topology_change
from domain.messages import ProblemReport

log = structlog.get_logger(__name__)

NODES_COME_WITHIN = timedelta(seconds=30)
"""Since its deployment; a topology that does not fit then is told as a problem."""
PLACEMENT = "placement"
"""Where that problem is."""


def topology_place_if_unplaced(topology: Topology) -> None:
    """A topology deployed while no node was alive is placed as soon as there are nodes."""
    if _waits_for_nodes(topology):  # asked before, because a transaction stops other writers
        topology_place(topology)


@writing
def topology_place(topology: Topology) -> None:
    """Make the first plan of its deployment; where its partitions do not fit, that is told as a problem."""
    locked = Topology.objects.select_for_update().get(pk=topology.pk)
    if not _waits_for_nodes(locked):
        return
    if locked.deployed_at is not None and locked.deployed_at > timezone.now():
        locked.deployed_at = timezone.now()  # the clock was put back, and plans count from then on
    try:
        plan, changes = deploy_plan_create(topology=locked, reason="nodes have come")
    except Conflict as error:
        log.warning("topology not placed", topology=locked.name, error=str(error))
        _tell_unplaced(locked, str(error))
        return
    if plan is not None:
        # Whatever the driver of the run before has said since.
        locked.status, locked.error = TopologyStatus.DEPLOYING, ""
        locked.save(update_fields=["deployed_at", "status", "error", "updated_at"])
        event_publish(
            kind=EventKind.TOPOLOGY_DEPLOYED,
            topology=locked.name,
            changes=[topology_change(locked), *changes],
            reason=plan.reason,
        )


def _tell_unplaced(topology: Topology, why: str) -> None:
    """Once, though it is tried again and again, and not while its first nodes come one by one."""
    waits_since = topology.deployed_at or topology.created_at
    known = topology.problems.filter(where=PLACEMENT, what=why)
    if timezone.now() - waits_since >= NODES_COME_WITHIN and not known.exists():
        hint = "It is placed as soon as it fits. Undeploy it where no nodes are to come."
        problem_record(report=ProblemReport(topology=topology.name, where=PLACEMENT, what=why, hint=hint))


def _waits_for_nodes(topology: Topology) -> bool:
    if topology.desired != Desired.RUNNING or placed_since_deploy(topology):
        return False
    return Node.objects.filter(state__in=NODE_USABLE, standby=False).exists()
