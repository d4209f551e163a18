"""Names of deleted topologies: what they left is removed, and a new topology of the name goes on counting.

The generation of the plan that deploys a topology identifies the deployment (`Plan.deployed`). It grows over
all topologies that ever had the name, so that nothing of an earlier one, nor a process that still works for
it, is taken for the present one.
"""

from __future__ import annotations

from datetime import datetime

from controlplane.topologies.choices import Outputs
from controlplane.topologies.models import FormerTopology, Topology


def former_note(*, topology: Topology, outputs: Outputs) -> None:
    """Remember a topology that is being deleted."""
    FormerTopology.objects.update_or_create(
        name=topology.name,
        defaults={"generation": topology.generation, "outputs": outputs, "cleared_at": None},
    )


def generation_reached(name: str) -> int:
    """The last generation of the topologies that had this name; 0 if there were none."""
    row = FormerTopology.objects.filter(name=name).first()
    return row.generation if row is not None else 0


def formers_to_clear() -> list[FormerTopology]:
    """Deleted topologies of which something may still be stored, by name."""
    return list(FormerTopology.objects.filter(cleared_at=None).order_by("name"))


def former_uncleared(name: str) -> FormerTopology | None:
    """The deleted topology of this name, if something of it may still be stored. Until it is cleared, nothing
    of a new topology is published or started: it would be mixed with what is left, or removed with it."""
    return FormerTopology.objects.filter(name=name, cleared_at=None).first()


def former_cleared(*, name: str, at: datetime) -> None:
    """Nothing of the deleted topology is left, except outputs that were to be kept."""
    FormerTopology.objects.filter(name=name, cleared_at=None).update(cleared_at=at)
