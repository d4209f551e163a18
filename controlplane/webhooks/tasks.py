"""Celery tasks of webhooks, in their own queue, so that a hanging receiver does not delay a recovery. A
message is sent after each event's commit; the sweep finds the same work in the database. Either alone is
enough, except for retries further away than `LONGEST_COUNTDOWN`: these need the sweep or the webhook's next
event.
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
"""Seconds; below Redis' visibility timeout (60 s), after which it delivers a waiting message a second
time."""


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
    """Send for every webhook with a due delivery, in case its message was lost."""
    try:
        due = webhooks_due(at=timezone.now())
    except DatabaseError as error:
        log.warning("put off to the next sweep", task="webhooks_sweep", of="all", error=str(error))
        return
    for webhook_id in due:
        task_send(WEBHOOK_SEND, webhook_id)
