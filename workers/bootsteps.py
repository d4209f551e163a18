"""What workers run besides tasks: each one the watch that ends it when it is stalled, the detection worker
also the node watch and the ingestion of telemetry."""

from __future__ import annotations

from typing import Any, ClassVar

import structlog
from celery import bootsteps
from django.conf import settings

from workers.keeping import Keeper, KeptThread
from workers.stall import EVERY, StallWatch, end_process

log = structlog.get_logger(__name__)

QUEUE = "detection"


class ForkingPoolError(RuntimeError):
    """The detection worker was started with a pool that forks, which kazoo's threads do not survive."""


def _pool(worker: Any) -> str:
    return getattr(worker.pool_cls, "__module__", "")


def _runs_tasks_here(worker: Any) -> bool:
    """Whether tasks run in the process of the worker itself, and not in forks of it."""
    return _pool(worker).endswith((".thread", ".solo"))


class _ThreadStep(bootsteps.StartStopStep):
    """Keeps one thread running for as long as the worker lives.

    It starts before the worker connects to Redis, so detection does not wait for a broker.
    """

    requires: ClassVar[set[str]] = {"celery.worker.components:Pool"}

    def __init__(self, worker: Any, **options: Any) -> None:
        super().__init__(worker, **options)
        self.thread: Any = None

    def make(self, worker: Any) -> KeptThread:
        raise NotImplementedError

    def start(self, worker: Any) -> None:
        url = settings.RESURGE.redis_url
        self.thread = Keeper(lambda: self.make(worker), url=url, end=end_process)
        self.thread.start()

    def stop(self, worker: Any) -> None:
        if self.thread is not None:
            self.thread.finish()
            self.thread = None

    terminate = stop


class StallStep(_ThreadStep):
    """Only where the broker is Redis, and where the signals of tasks are sent in this process."""

    name = "resurge.stall"
    every: ClassVar[float] = EVERY

    def include_if(self, worker: Any) -> bool:
        url = worker.app.conf.broker_url or ""
        return url.startswith(("redis://", "rediss://")) and _runs_tasks_here(worker)

    def make(self, worker: Any) -> KeptThread:
        return StallWatch(
            worker.app.amqp.queues.consume_from,
            url=worker.app.conf.broker_url,
            every=self.every,
        )


class _DetectionThreadStep(_ThreadStep):
    """Only in a worker that consumes the queue `detection`."""

    def include_if(self, worker: Any) -> bool:
        return QUEUE in worker.app.amqp.queues.consume_from

    def start(self, worker: Any) -> None:
        if not _runs_tasks_here(worker):
            raise ForkingPoolError(
                f"the worker of queue {QUEUE!r} runs with the pool {_pool(worker)}: "
                "start it with `--pool threads`"
            )
        super().start(worker)


class DetectionStep(_DetectionThreadStep):
    name = "resurge.detection"

    def make(self, worker: Any) -> KeptThread:
        from workers.detection import Watch

        return Watch()


class IngestionStep(_DetectionThreadStep):
    name = "resurge.ingestion"

    def make(self, worker: Any) -> KeptThread:
        from workers.ingestion import Ingestion

        return Ingestion()
