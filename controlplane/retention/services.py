"""Removing what is too old or too much, in steps so small that nothing else waits for them (write side)."""

from __future__ import annotations

from collections.abc import Callable

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from controlplane.retention.kinds import KINDS, Kind
from controlplane.retention.logs import logs_trim

log = structlog.get_logger(__name__)

STEP = 2_000
"""Rows of one transaction."""
STEPS = 50
"""Of one kind at a time; the rest is for the next time, a minute later. A thousand topologies bring 60,000
rows of measurements in that minute."""


def retention_enforce(attempt: Callable[[Callable[[], object], str], object]) -> None:
    """Every kind, through `attempt`, which keeps an error in one of them from the others."""
    for kind in KINDS:
        attempt(lambda kind=kind: kind_trim(kind), kind.name)  # type: ignore[misc]
    attempt(lambda: logs_trim(settings.RESURGE.home, settings.RESURGE.keep_logs), "logs")


def kind_trim(kind: Kind, *, step: int = STEP, steps: int = STEPS) -> int:
    """Remove rows of this kind that are out of bounds, the oldest first; returns how many went."""
    removed = 0
    for _ in range(steps):
        count = _step(kind, step)
        removed += count
        if count < step:
            break
    if removed:
        log.info("rows removed", kind=kind.name, count=removed)
    return removed


@transaction.atomic
def _step(kind: Kind, most: int) -> int:
    rows = kind.removable_rows()
    old = rows.filter(**{f"{kind.at}__lt": timezone.now() - kind.age})
    keys = _oldest(kind, old, most)
    if not keys:
        surplus = rows.count() - kind.keep.size
        keys = _oldest(kind, rows, min(surplus, most)) if surplus > 0 else []
    if not keys:
        return 0
    chosen = kind.rows().filter(pk__in=keys)
    if kind.before_delete is not None:
        kind.before_delete(chosen)
    chosen.delete()
    return len(keys)


def _oldest(kind: Kind, rows: QuerySet[object], most: int) -> list[object]:
    return list(rows.order_by(kind.at, "pk").values_list("pk", flat=True)[:most])
