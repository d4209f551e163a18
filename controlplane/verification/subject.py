"""What the outputs of a topology are outputs of."""

from __future__ import annotations

from typing import Any

from controlplane.topologies.models import Topology
from controlplane.verification.problems import VerificationError


def spec_that_ran(topology: Topology) -> dict[str, Any]:
    """The specification that was deployed last. Raises `VerificationError` if there is a newer version, which
    has no outputs yet."""
    newest = topology.versions.order_by("-number").first()
    if newest is not None and topology.deployed_at is not None and newest.created_at > topology.deployed_at:
        raise VerificationError(
            where=topology.name,
            what=f"version {newest.number} has not been deployed yet, and has no outputs",
            hint="Deploy it, and verify what it gives.",
        )
    spec: dict[str, Any] = topology.spec
    return spec
