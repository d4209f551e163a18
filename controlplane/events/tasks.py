"""Sending Celery tasks by name, once the transaction that caused them has committed.

The web process only produces messages, so it needs neither the workers' code nor
their ZooKeeper session. A broker that is away loses nothing: the periodic sweep
finds the same work in the database.
"""

from __future__ import annotations

import time
from functools import cache

import structlog
from celery import Celery
from django.db import transaction

from controlplane.events.circuit import LIMIT, redis_circuit

log = structlog.get_logger(__name__)

INCIDENT_STEP = "recovery.incident_step"
TOPOLOGY_PUBLISH = "recovery.topology_publish"
TOPOLOGY_STEP = "recovery.topology_step"
OPERATION_RUN = "recovery.operation_run"
REPLICAS_PLACE = "recovery.replicas_place"
WEBHOOK_SEND = "webhooks.send"

QUICK = 0.2
"""Seconds within which a failure is followed by a second try."""
_WAITS_LITTLE = {
    "max_retries": 0,
    "socket_timeout": LIMIT,
    "socket_connect_timeout": LIMIT,
    # redis-py tries again by itself, up to three times with pauses.
    "retry_on_timeout": False,
}


@cache
def _producer() -> Celery:
    app = Celery("resurge-producer", set_as_current=False)
    app.config_from_object("django.conf:settings", namespace="CELERY")
    # A request must not wait for a broker that is away or hangs: then it is the sweep's turn.
    app.conf.broker_transport_options = {**app.conf.broker_transport_options, **_WAITS_LITTLE}
    return app


def task_send_on_commit(name: str, *arguments: str | int) -> None:
    """Send task `name` after the current transaction commits (at once outside of one)."""
    transaction.on_commit(lambda: task_send(name, *arguments), robust=True)


def task_send(name: str, *arguments: str | int, countdown: float | None = None) -> None:
    """Send it now, to be run in `countdown` seconds: fewer than the broker's visibility timeout."""

    def send_once() -> None:
        _producer().send_task(name, args=arguments, countdown=countdown, retry=False, ignore_result=True)

    def send() -> None:
        started = time.monotonic()
        try:
            send_once()
        except Exception:
            if time.monotonic() - started > QUICK:
                raise
            send_once()  # the connection that was kept is of a Redis that was restarted since

    try:
        if not redis_circuit.attempt(send):
            log.debug("task not sent: redis does not answer", task=name)
    except Exception as error:  # kombu raises the transport's own errors
        log.warning("task not sent; the sweep will find the work", task=name, error=str(error))
