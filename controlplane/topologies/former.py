"""Names of deleted topologies: what they left is removed, and a new topology of the name goes on counting.

The generation of the plan that deploys a topology identifies the deployment (`Plan.deployed`). It grows over
all topologies that ever had the name, so that nothing of an earlier one, nor a process that still works for
it, is taken for the present one.

Where ZooKeeper has a plan of a database that was lost, its name is noted as that of a former topology, too:
nothing begins under the name, and nothing is removed, until an operator deletes the topology that has it now.
"""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone

from controlplane.events.services import writing
from controlplane.topologies.choices import Outputs
from controlplane.topologies.models import FormerTopology, Topology


def former_note(*, topology: Topology, outputs: Outputs) -> None:
    """Remember a topology that is being deleted."""
    reached = max(topology.generation, generation_reached(topology.name))
    FormerTopology.objects.update_or_create(
        name=topology.name,
        defaults={"generation": reached, "outputs": outputs, "cleared_at": None, "foreign": False},
    )


@writing
def foreign_note(*, name: str, generation: int) -> None:
    """ZooKeeper has a topology of this name of another database, with a plan of this generation."""
    FormerTopology.objects.update_or_create(
        name=name,
        defaults={
            "generation": max(generation, generation_reached(name)),
            "cleared_at": None,
            "foreign": True,
        },
    )


@writing
def former_learn(*, name: str, generation: int) -> None:
    """A database that was lost had deleted a topology of this name: one that is created now goes on counting
    from there. What the deleted one had left was removed before nodes were told."""
    if generation > generation_reached(name):
        FormerTopology.objects.update_or_create(
            name=name,
            defaults={"generation": generation},
            create_defaults={"generation": generation, "cleared_at": timezone.now()},
        )


def generation_reached(name: str) -> int:
    """The last generation of the topologies that had this name; 0 if there were none."""
    row = FormerTopology.objects.filter(name=name).first()
    return row.generation if row is not None else 0


def formers_to_clear() -> list[FormerTopology]:
    """Deleted topologies of which something may still be stored, by name."""
    return list(FormerTopology.objects.filter(cleared_at=None, foreign=False).order_by("name"))


def formers_cleared() -> list[tuple[str, int]]:
    """Deleted topologies of which nothing is left here, each with the generation that it had reached."""
    rows = FormerTopology.objects.filter(foreign=False).exclude(cleared_at=None)
    return list(rows.order_by("name").values_list("name", "generation"))


def names_cleared_since(moment: datetime) -> list[str]:
    """Of deleted topologies that have been cleared since then, where no topology has the name now."""
    cleared = FormerTopology.objects.filter(foreign=False, cleared_at__gte=moment)
    return list(cleared.exclude(name__in=Topology.objects.values("name")).values_list("name", flat=True))


def names_uncleared() -> set[str]:
    """Names under which nothing may be published or started yet; see `former_uncleared`."""
    return set(FormerTopology.objects.filter(cleared_at=None).values_list("name", flat=True))


def former_uncleared(name: str) -> FormerTopology | None:
    """The former topology of this name, if something of it may still be stored. Until it is cleared, nothing
    of a new topology is published or started: it would be mixed with what is left, or removed with it."""
    return FormerTopology.objects.filter(name=name, cleared_at=None).first()


def former_cleared(*, name: str, at: datetime) -> None:
    """Nothing of the deleted topology is left, except outputs that were to be kept."""
    FormerTopology.objects.filter(name=name, cleared_at=None, foreign=False).update(cleared_at=at)
