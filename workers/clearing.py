"""Removing what a deleted topology has left in ZooKeeper, in checkpoint storage and on the host."""

from __future__ import annotations

import structlog
from django.utils import timezone

from controlplane.topologies.choices import Outputs
from controlplane.topologies.former import (
    former_cleared,
    former_uncleared,
    formers_cleared,
    formers_to_clear,
)
from coordination.paths import Paths
from domain.messages import Former
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
    # Nodes remove what they have of it themselves, also those that are down now.
    _tell_nodes(coordination, name, former.generation)
    coordination.delete_tree(Paths.topology(name))
    former_cleared(name=name, at=timezone.now())
    log.info("deleted topology cleared", topology=name, outputs=former.outputs)


def formers_tell(coordination: WorkerSession) -> None:
    """Tell nodes of deleted topologies again what ZooKeeper has no more, since it lost its data."""
    known = dict(formers_cleared())
    found = coordination.get_many([(Paths.former(name), Former) for name in known])
    for (name, generation), stored in zip(known.items(), found, strict=True):
        if stored is None or stored.value.generation < generation:
            _tell_nodes(coordination, name, generation)


def _tell_nodes(coordination: WorkerSession, name: str, generation: int) -> None:
    def raised(current: Former | None) -> Former:
        return Former(generation=max(generation, current.generation if current is not None else 0))

    coordination.change(Paths.former(name), Former, raised)
