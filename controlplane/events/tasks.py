"""Sending Celery tasks by name, once the transaction that caused them has committed.

The web process only produces messages, so it needs neither the workers' code nor
their ZooKeeper session. A broker that is away loses nothing: the periodic sweep
finds the same work in the database.
"""

from __future__ import annotations

from functools import cache

import structlog
from celery import Celery
from django.db import transaction

log = structlog.get_logger(__name__)

INCIDENT_STEP = "recovery.incident_step"
TOPOLOGY_PUBLISH = "recovery.topology_publish"
OPERATION_RUN = "recovery.operation_run"
WEBHOOK_SEND = "webhooks.send"

_ONE_RETRY = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}


@cache
def _producer() -> Celery:
    app = Celery("resurge-producer", set_as_current=False)
    app.config_from_object("django.conf:settings", namespace="CELERY")
    # A request must not wait for a broker that is away: one quick second try, then the sweep's turn.
    app.conf.broker_transport_options = {**app.conf.broker_transport_options, **_ONE_RETRY}
    return app


def task_send_on_commit(name: str, *arguments: str | int) -> None:
    """Send task `name` after the current transaction commits (at once outside of one)."""
    transaction.on_commit(lambda: task_send(name, *arguments), robust=True)


def task_send(name: str, *arguments: str | int, countdown: float | None = None) -> None:
    """Send it now, to be run in `countdown` seconds: fewer than the broker's visibility timeout."""
    try:
        _producer().send_task(
            name,
            args=arguments,
            countdown=countdown,
            retry=True,
            retry_policy=_ONE_RETRY,
            ignore_result=True,
        )
    except Exception as error:  # kombu raises the transport's own errors
        log.warning("task not sent; the sweep will find the work", task=name, error=str(error))
