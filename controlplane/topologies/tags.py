"""Entity tags of what can be edited of a topology; what is measured of it does not count."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.preconditions import entity_tag
from controlplane.topologies.models import Topology
from controlplane.topologies.representation import POLICY_FIELDS


def specification_tag(topology: Topology) -> str:
    """The same name may be given again after a deletion, and versions begin anew with it."""
    return entity_tag("specification", topology.name, topology.created_at.isoformat(), topology.version)


def policy_tag(topology: Topology) -> str:
    return entity_tag("policy", topology.name, {field: getattr(topology, field) for field in POLICY_FIELDS})


def priorities_tag(topology: str, priorities: Mapping[str, int]) -> str:
    """Of all or some queries of one topology, by id."""
    return entity_tag("priorities", topology, priorities)
