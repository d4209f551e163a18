"""The Celery application: queues, beat schedule, and the threads of workers.

    celery -A workers.celery_app worker -Q detection --pool threads --concurrency 2 -n detection@%h
    celery -A workers.celery_app worker -Q recovery --pool threads --concurrency 4 -n recovery@%h
    celery -A workers.celery_app worker -Q webhooks --pool threads --concurrency 4 -n webhooks@%h
    celery -A workers.celery_app beat

All workers use the threads pool: there is no parent that forks, so a ZooKeeper client lives where it was
made. Tasks are short, idempotent and acknowledged late; whatever is lost with a worker or with Redis is
found again by `recovery.sweep`, which needs neither memory nor messages of before.
"""

from __future__ import annotations

import os
from typing import Any

from host.garbage import collect_seldom

collect_seldom()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.config.settings")
# Django's checks load every page and all of REST, which no worker serves; `manage.py migrate` runs them.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

import django  # noqa: E402
from celery import Celery  # noqa: E402
from celery.signals import worker_process_shutdown, worker_shutdown  # noqa: E402
from kombu.entity import Queue  # noqa: E402

SWEEP_INTERVAL = 2.0
TRIM_INTERVAL = 60.0


def _every(seconds: float, task: str, *, waits: float | None = None) -> dict[str, Any]:
    """How beat sends a task. One that waits in its queue longer than `waits` seconds, by default until the
    next one is sent, is worthless: the next one does the same."""
    return {"task": task, "schedule": seconds, "options": {"expires": waits or seconds, "retry": False}}


django.setup()

app = Celery("resurge")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.update(
    task_queues=[Queue(name) for name in ("detection", "recovery", "webhooks")],  # type: ignore[no-untyped-call]
    # Redis may be restarted at any time: reconnect for ever, at once and after an hour alike.
    broker_connection_retry=True,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_channel_error_retry=True,
    # Tasks end within seconds, so an unacknowledged one belongs to a dead worker soon.
    worker_cancel_long_running_tasks_on_connection_loss=False,
    worker_enable_remote_control=False,
    worker_consumer="workers.consumer:ClosingConsumer",
    worker_send_task_events=False,
    beat_scheduler="workers.beat:Beat",
    beat_schedule={
        "sweep": _every(SWEEP_INTERVAL, "recovery.sweep", waits=2 * SWEEP_INTERVAL),
        "balance": _every(15.0, "recovery.balance"),
        "replicas": _every(10.0, "recovery.replicas"),
        "corrections": _every(10.0, "recovery.corrections"),
        "measure": _every(10.0, "maintenance.measure"),
        "alerts": _every(5.0, "recovery.alerts"),
        "trim": _every(TRIM_INTERVAL, "maintenance.trim"),
        "webhooks": _every(5.0, "webhooks.sweep", waits=10.0),
    },
)
app.autodiscover_tasks(["workers", "controlplane.webhooks"], related_name="tasks", force=True)

from workers.bootsteps import DetectionStep, IngestionStep, StallStep  # noqa: E402  (needs a configured Django)

for _step in (DetectionStep, IngestionStep, StallStep):
    app.steps["worker"].add(_step)


@worker_shutdown.connect
@worker_process_shutdown.connect
def _close_client(**_: Any) -> None:
    from workers.zookeeper import coordination_close

    coordination_close()
