"""How long samples of nodes are kept."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from controlplane.nodes.models import NodeSample

SAMPLES_KEPT = timedelta(hours=24)


@transaction.atomic
def node_samples_trim(*, kept: timedelta = SAMPLES_KEPT) -> int:
    """Delete samples older than `kept`; returns how many went."""
    count, _ = NodeSample.objects.filter(at__lt=timezone.now() - kept).delete()
    return int(count)
