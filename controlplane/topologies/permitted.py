"""What a topology permits in the state it is in."""

from __future__ import annotations

from controlplane.errors import Conflict
from controlplane.topologies.choices import TOPOLOGY_AT_REST, Desired, TopologyStatus
from controlplane.topologies.models import Topology


def at_rest_require(topology: Topology, action: str) -> None:
    """Raise `Conflict` unless no driver runs or is wanted."""
    at_rest = topology.status in TOPOLOGY_AT_REST
    if topology.status == TopologyStatus.FAILED and topology.desired == Desired.RUNNING:
        at_rest = False  # the launcher goes on trying
    if not at_rest:
        raise Conflict(f"topology {topology.name!r} is {topology.status}; undeploy it before you {action} it")
