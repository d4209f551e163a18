"""Draining by policy the nodes that are slow but not dead."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from controlplane.events.services import writing
from controlplane.incidents.choices import IncidentState, IncidentTrigger
from controlplane.incidents.models import Incident
from controlplane.incidents.selectors import incidents_open
from controlplane.lifecycle.nodes import node_drain
from controlplane.nodes.choices import NodeState
from controlplane.nodes.models import Node
from controlplane.topologies.choices import Desired, SlowNodesPolicy
from controlplane.topologies.models import Topology


@writing
def drain_by_policy() -> Incident | None:
    """Drain the node that has been slow for longest, if that is long enough and a topology's policy wants it.

    One at a time, and none while an incident has something to restore: a recovery makes nodes slow for a
    while. None where no other node is alive that takes partitions, as standbys do for failures only.
    """
    after = settings.RESURGE.slow_after
    if not after or incidents_open().exclude(state=IncidentState.CATCHING_UP).exists():
        return None
    now = timezone.now()
    slow = _slow_since(now - timedelta(seconds=after))
    alive = dict(Node.objects.filter(state=NodeState.ALIVE).values_list("name", "standby"))
    for since, node, topology in slow:
        if node in alive and any(not standby for other, standby in alive.items() if other != node):
            reason = (
                f"its tasks have taken a multiple of the time of other nodes' tasks for the same work for "
                f"{(now - since).total_seconds():.0f} s, as {topology} reports"
            )
            return node_drain(name=node, actor="", reason=reason, trigger=IncidentTrigger.SLOW)
    return None


def _slow_since(latest: datetime) -> list[tuple[datetime, str, str]]:
    """Since when, which node, and which topology says so; since `latest` or longer, longest first."""
    reporting = Topology.objects.filter(desired=Desired.RUNNING).exclude(slow_since={})
    found = [
        (datetime.fromisoformat(since), node, topology.name)
        for topology in reporting
        if topology.slow_nodes == SlowNodesPolicy.AUTOMATIC
        for node, since in topology.slow_since.items()
    ]
    return sorted(one for one in found if one[0] <= latest)
