"""Celery tasks of webhooks, in a queue of their own: a receiver that hangs must not hold up a recovery.

A message follows each event's commit; the sweep finds the same work in the database. Either alone is
enough, but for retries that are far off, which without the sweep go with the webhook's next event.
"""

from __future__ import annotations

import structlog
from celery import shared_task
from django.db import DatabaseError
from django.utils import timezone

from controlplane.events.tasks import WEBHOOK_SEND, task_send
from controlplane.webhooks.selectors import webhooks_due
from controlplane.webhooks.sending import webhook_send

log = structlog.get_logger(__name__)

LONGEST_COUNTDOWN = 30.0
"""Redis hands a message out again after its visibility timeout (60 s), waiting or not."""


@shared_task(name=WEBHOOK_SEND)
def send(webhook_id: int) -> None:
    try:
        wait = webhook_send(webhook_id=webhook_id)
    except DatabaseError as error:
        log.warning("put off to the next sweep", task="webhook_send", of=webhook_id, error=str(error))
        return
    if wait is not None and wait <= LONGEST_COUNTDOWN:
        task_send(WEBHOOK_SEND, webhook_id, countdown=wait)


@shared_task(name="webhooks.sweep")
def sweep() -> None:
    """Send for every webhook with something due, as if no message had ever come."""
    try:
        due = webhooks_due(at=timezone.now())
    except DatabaseError as error:
        log.warning("put off to the next sweep", task="webhooks_sweep", of="all", error=str(error))
        return
    for webhook_id in due:
        task_send(WEBHOOK_SEND, webhook_id)
