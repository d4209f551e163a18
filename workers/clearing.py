"""Removing what a deleted topology has left in ZooKeeper, in checkpoint storage and on the host."""

from __future__ import annotations

import structlog
from django.utils import timezone

from controlplane.topologies.choices import Outputs
from controlplane.topologies.former import former_cleared, former_uncleared, formers_to_clear
from coordination.paths import Paths
from host.environment import Environment
from spark_jobs.driver.epoch_log import epoch_log_directory
from spark_jobs.driver.only_driver import AnotherDriverError, only_driver
from workers.zookeeper import WorkerSession

log = structlog.get_logger(__name__)


def formers_clear(coordination: WorkerSession, environment: Environment) -> None:
    """Clear what can be cleared now; the next sweep goes on with the others."""
    for former in formers_to_clear():
        try:
            # Until all of it is done no driver begins, and no other worker does the same.
            with only_driver(epoch_log_directory(environment.home, former.name), former.name):
                _clear(coordination, environment, former.name)
        except AnotherDriverError as error:
            log.info("deleted topology not cleared yet", topology=former.name, reason=str(error))


def _clear(coordination: WorkerSession, environment: Environment, name: str) -> None:
    from spark_jobs.driver.withdrawal import withdraw  # loads Arrow, which a worker needs for nothing else

    former = former_uncleared(name)
    if former is None:
        return
    withdraw(environment, name, keep_outputs=former.outputs != Outputs.REMOVE)
    coordination.delete_tree(Paths.topology(name))
    former_cleared(name=name, at=timezone.now())
    log.info("deleted topology cleared", topology=name, outputs=former.outputs)
