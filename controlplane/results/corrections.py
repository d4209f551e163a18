"""What became of tentative rows, once the final ones are there (write side)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import structlog
from django.conf import settings
from django.db.models import F
from django.utils import timezone

from controlplane.errors import Busy, Conflict
from controlplane.events.choices import EventKind
from controlplane.events.services import event_publish, writing
from controlplane.incidents.loading import deployment_at
from controlplane.results.asking import TooSlow, compared
from controlplane.results.messages import Compared, Comparison
from controlplane.topologies.models import TentativePeriod
from domain.topology import split_partition

log = structlog.get_logger(__name__)
AT_ONCE, LOOKS = 5, 20
"""Periods that one call compares, and periods that it looks at to find these; each takes a second or so. A
period cannot be compared before the sink has told which of its epochs count."""
TRIED_FOR = timedelta(minutes=10)
"""How long after its end a period is looked at again if reading was too slow, as on a host that recovers."""


def corrections_look() -> int:
    """Compare the tentative rows of periods that have ended with the final rows, where these are committed.
    Returns how many periods that were."""
    given_up = timezone.now() - TRIED_FOR
    waiting = TentativePeriod.objects.filter(
        ended_at__isnull=False, corrected_at=None, topology__committed_epoch__gte=F("last_epoch")
    )
    done = 0
    for period in waiting.select_related("topology").order_by("pk")[:LOOKS]:
        if done == AT_ONCE:
            break
        operator, partition = split_partition(period.query)
        asked = Comparison(
            directory=str(Path(settings.RESURGE.outputs) / period.topology.name),
            operator=operator,
            partition=partition,
            deployed=deployment_at(period.topology_id, period.generation),
            first=period.first_epoch,
            last=period.last_epoch,
        )
        try:
            found = compared(asked)
        except Busy:
            break
        except TooSlow as error:
            if period.ended_at > given_up:
                break
            found = Compared(problem=str(error))
        except Conflict as error:
            found = Compared(problem=str(error))
        if found.later:
            continue
        correction_store(period=period.pk, found=found)
        done += 1
    return done


@writing
def correction_store(*, period: int, found: Compared) -> None:
    """Keep what became of the rows of a period, unless that is known by now."""
    row = (
        TentativePeriod.objects.select_for_update(of=("self",))
        .select_related("topology")
        .filter(pk=period, corrected_at=None)
        .first()
    )
    if row is None:
        return
    row.corrected_at = timezone.now()
    row.stayed, row.changed = found.stayed, found.changed
    row.appeared, row.vanished = found.appeared, found.vanished
    row.problem = found.problem
    row.save(update_fields=["corrected_at", "stayed", "changed", "appeared", "vanished", "problem"])
    log.info("tentative output corrected", topology=row.topology.name, query=row.query, problem=found.problem)
    event_publish(kind=EventKind.QUERY_CORRECTED, topology=row.topology.name, changes=[], reason=_told(row))


def _told(period: TentativePeriod) -> str:
    seconds = (period.ended_at - period.began_at).total_seconds() if period.ended_at else 0.0
    start = f"{period.query} was tentative for {seconds:.0f} s"
    if period.problem:
        return f"{start}; its rows were not compared: {period.problem}"
    return (
        f"{start}: {period.stayed:,} rows stayed, {period.changed:,} changed, {period.appeared:,} appeared, "
        f"{period.vanished:,} vanished"
    )
