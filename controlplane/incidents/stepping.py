"""Having open incidents looked at again at once, because something they depend on has changed."""

from __future__ import annotations

from controlplane.events.tasks import INCIDENT_STEP, task_send_on_commit
from controlplane.incidents.selectors import incidents_open
from controlplane.topologies.models import Topology


def incidents_step_on_commit(topology: Topology) -> None:
    """Send the recovery worker to every open incident of this topology, after the caller's commit."""
    for number in incidents_open().filter(topologies=topology).values_list("number", flat=True):
        task_send_on_commit(INCIDENT_STEP, number)
