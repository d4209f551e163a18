"""How long answers to creations are kept. Apart from `idempotency`, because a worker trims them, and need not
load the REST framework for that.
"""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from controlplane.api.models import KeptAnswer

KEPT = timedelta(days=1)


def answers_trim() -> int:
    """Forget what was answered more than a day ago; returns how many went."""
    count, _ = KeptAnswer.objects.filter(created_at__lt=timezone.now() - KEPT).delete()
    return int(count)
