"""Whether a topology can be put back to a checkpoint now."""

from __future__ import annotations

from controlplane.errors import Conflict
from controlplane.incidents.loading import deployments_load, machine_load, nodes_load, plans_newest
from controlplane.incidents.selectors import incidents_open
from controlplane.topologies.models import Topology
from domain.recovery.machine import IncidentMachine


def deployment_named(topology: Topology) -> str:
    """Tells the deployments of a topology apart: each counts its checkpoints from the first epoch."""
    return "" if topology.deployed_at is None else topology.deployed_at.isoformat()


def restorable(topology: str) -> None:
    """Raise `Conflict` while a plan of the topology is under way, or partitions of it are down."""
    incident = incidents_open().first()
    if incident is None:
        deployments = deployments_load(plans_newest())
        machine = IncidentMachine(number=0, deployments=deployments, nodes=nodes_load(deployments))
    else:
        # That its story is damaged is said by the step that has to read all of it.
        machine = machine_load(incident, may_plan=False, damaged=True)
    if refusal := machine.restore_refusal(topology):
        raise Conflict(refusal)
