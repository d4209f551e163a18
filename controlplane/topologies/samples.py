"""Samples of availability: how many queries of a topology were available (write side)."""

from __future__ import annotations

from datetime import UTC, datetime

from controlplane.events.representation import Change
from controlplane.topologies.models import AvailabilitySample
from controlplane.topologies.representation import sample_change
from controlplane.topologies.rows import Rows


def sample_take(rows: Rows, *, at: datetime) -> Change:
    """Keep how many are available now; returns the change for the caller's event."""
    sample = sample_of(rows, at=at)
    sample.save()
    return sample_change(sample, topology=rows.topology.name)


def sample_of(rows: Rows, *, at: datetime) -> AvailabilitySample:
    """How many are available now; to be stored by the caller."""
    queries = rows.queries.values()
    total = sum(query.priority for query in queries)
    return AvailabilitySample(
        topology=rows.topology,
        # Milliseconds, as on the wire: the sample's key is its time.
        at=at.astimezone(UTC).replace(microsecond=at.microsecond // 1000 * 1000),
        available=rows.available(),
        total=len(rows.queries),
        weighted=sum(query.priority for query in queries if query.available) / total if total else 0.0,
        tentative=rows.tentative(),
    )
