"""What the detection worker runs besides tasks: the node watch and the ingestion of telemetry."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

import structlog
from celery import bootsteps

log = structlog.get_logger(__name__)

QUEUE = "detection"


class ForkingPoolError(RuntimeError):
    """The detection worker was started with a pool that forks, which kazoo's threads do not survive."""


class _ThreadStep(bootsteps.StartStopStep):
    """Runs one thread for as long as a worker that consumes the queue `detection` lives.

    It starts before the worker connects to Redis, so detection does not wait for a broker.
    """

    requires: ClassVar[set[str]] = {"celery.worker.components:Pool"}

    def __init__(self, worker: Any, **options: Any) -> None:
        super().__init__(worker, **options)
        self.thread: Any = None

    def include_if(self, worker: Any) -> bool:
        return QUEUE in worker.app.amqp.queues.consume_from

    def make(self) -> threading.Thread:
        raise NotImplementedError

    def start(self, worker: Any) -> None:
        pool = getattr(worker.pool_cls, "__module__", "")
        if not pool.endswith((".thread", ".solo")):
            raise ForkingPoolError(
                f"the worker of queue {QUEUE!r} runs with the pool {pool}: start it with `--pool threads`"
            )
        self.thread = self.make()
        self.thread.start()

    def stop(self, worker: Any) -> None:
        if self.thread is not None:
            self.thread.finish()
            self.thread = None

    terminate = stop


class DetectionStep(_ThreadStep):
    name = "resurge.detection"

    def make(self) -> threading.Thread:
        from workers.detection import Watch

        return Watch()


class IngestionStep(_ThreadStep):
    name = "resurge.ingestion"

    def make(self) -> threading.Thread:
        from workers.ingestion import Ingestion

        return Ingestion()
