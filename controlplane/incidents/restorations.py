"""What the plans of an incident put back, as `domain.forecast` counts it (read side)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime

from controlplane.checkpoints.models import Checkpoint
from controlplane.incidents.choices import PlanKind, PlanState
from controlplane.incidents.models import Incident, RecoveryPlan
from controlplane.topologies.choices import Guarantee, PartitionState
from controlplane.topologies.models import Partition, Topology
from controlplane.topologies.selectors import SPEC_OF_TOPOLOGY
from domain.execution.catching_up import NEVER
from domain.forecast import PlanView
from domain.forecast.outlook import NO_REPLAY
from domain.forecast.reading import Restoring
from domain.topology import partition_id


def plans_read(incident: Incident) -> dict[str, list[Restoring]]:
    """Plans by topology, without those that only stop partitions, which have nothing to catch up with, and
    those that were given up before they were applied."""
    made = RecoveryPlan.objects.filter(incident=incident).select_related("topology")
    # Of a large topology each of these takes milliseconds, for each plan at each step.
    made = made.defer("explanation", "assignment", SPEC_OF_TOPOLOGY, "topology__deployed_spec")
    rows = [
        row
        for row in made.order_by("generation")
        if (row.restore or row.rollback) and (row.applied_at or row.state != PlanState.SUPERSEDED)
    ]
    newest = {row.topology_id: row.generation for row in rows}
    ended, behind = _ended(rows), _behind(newest)
    found: defaultdict[str, list[Restoring]] = defaultdict(list)
    for row in rows:
        restore, overtaken = frozenset(row.restore), row.generation != newest[row.topology_id]
        if overtaken and row.caught_up_at is None:
            # It is not noted any more when the rest of it has caught up.
            restore &= behind[row.topology_id]
            if not restore:
                continue
        plan = PlanView(
            topology=row.topology.name,
            generation=row.generation,
            decided_at=row.created_at.timestamp(),
            checkpoint_at=_replayed_since(row, ended),
            applied_at=_seconds(row.applied_at),
            caught_up_at=_seconds(row.caught_up_at),
            catch_up=_catch_up(row.topology) if row.applied_at and not overtaken else None,
        )
        found[row.topology.name].append(Restoring(plan=plan, restore=restore))
    return dict(found)


def deployed_at(names: Iterable[str]) -> dict[str, float]:
    """By topology since when all input is replayed where no checkpoint is complete."""
    rows = Topology.objects.filter(name__in=names).values_list("name", "deployed_at")
    return {name: moment.timestamp() for name, moment in rows if moment is not None}


def _ended(rows: Iterable[RecoveryPlan]) -> dict[tuple[int, int], float]:
    """When the checkpoints were complete that these plans start from, by topology and epoch."""
    wanted = {(row.topology_id, row.checkpoint) for row in rows}
    topologies, epochs = {topology for topology, _ in wanted}, {epoch for _, epoch in wanted}
    found = Checkpoint.objects.filter(topology__in=topologies, epoch__in=epochs, ended_at__isnull=False)
    columns = found.order_by().values_list("topology_id", "epoch", "ended_at")
    return {
        (topology, epoch): at.timestamp() for topology, epoch, at in columns if (topology, epoch) in wanted
    }


def _replayed_since(row: RecoveryPlan, ended: Mapping[tuple[int, int], float]) -> float:
    if row.kind == PlanKind.MOVE or row.topology.guarantee == Guarantee.BOUNDED:
        return NO_REPLAY
    began = row.topology.deployed_at or row.created_at
    return ended.get((row.topology_id, row.checkpoint), began.timestamp())


def _behind(topologies: Iterable[int]) -> defaultdict[int, set[str]]:
    """Partitions, by topology, that have been put back and have not caught up."""
    states = (PartitionState.RESTORING, PartitionState.REPLAYING)
    rows = Partition.objects.filter(topology__in=list(topologies), state__in=states)
    found: defaultdict[int, set[str]] = defaultdict(set)
    for topology, operator, index in rows.values_list("topology_id", "operator", "index"):
        found[topology].add(partition_id(operator, index))
    return found


def _catch_up(topology: Topology) -> float | None:
    """The driver's estimate at its pace; one that says never is no estimate."""
    return topology.catch_up if topology.catch_up is not None and topology.catch_up < NEVER else None


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
