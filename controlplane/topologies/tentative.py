"""Times in which queries went on without a part of their input (write side).

A period begins when a driver says that a query gives tentative output, and ends when it says so no more. What
became of the rows is found later, when the final ones are there (`controlplane.results.corrections`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from controlplane.topologies.models import TentativePeriod, Topology
from controlplane.topologies.rows import Rows
from domain.messages import TentativeStatus
from domain.planning import natural_key


def tentative_apply(
    topology: Topology,
    rows: Rows,
    told: Mapping[str, TentativeStatus],
    *,
    generation: int,
    at: datetime,
) -> dict[str, float]:
    """What a driver says of tentative output, for the queries of `rows`, which are not saved here. Returns
    the queries that have begun to give some, and the share of their output that is left."""
    before = {label for label, query in rows.queries.items() if query.fidelity is not None}
    for label, query in rows.queries.items():
        query.fidelity = round(told[label].fidelity, 3) if label in told else None
    if not (before or told):
        return {}
    known = {label: told[label] for label in sorted(told, key=natural_key) if label in rows.queries}
    running = {
        period.query: period
        for period in TentativePeriod.objects.filter(topology=topology, ended_at=None).order_by("pk")
    }
    for label, period in running.items():
        status = known.get(label)
        if status is None or status.since > period.last_epoch + 1:
            period.ended_at = at
            period.save(update_fields=["ended_at"])
        elif status.epoch > period.last_epoch or status.fidelity < period.fidelity:
            period.last_epoch = max(period.last_epoch, status.epoch)
            period.fidelity = min(period.fidelity, status.fidelity)
            period.save(update_fields=["last_epoch", "fidelity"])
    new = {
        label: status
        for label, status in known.items()
        if label not in running or running[label].ended_at is not None
    }
    TentativePeriod.objects.bulk_create(
        TentativePeriod(
            topology=topology,
            query=label,
            generation=generation,
            began_at=at,
            first_epoch=status.since,
            last_epoch=status.epoch,
            fidelity=status.fidelity,
        )
        for label, status in new.items()
    )
    return {label: status.fidelity for label, status in new.items() if label not in before}


def tentative_end(topology: Topology, rows: Rows, *, at: datetime) -> None:
    """Nothing of the topology runs any more."""
    tentative_apply(topology, rows, {}, generation=topology.applied_generation, at=at)
