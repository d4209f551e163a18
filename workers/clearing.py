"""Removing what a deleted topology has left in ZooKeeper, in checkpoint storage and on the host."""

from __future__ import annotations

import re
from contextlib import closing, suppress
from datetime import timedelta

import structlog
from django.utils import timezone

from controlplane.checkpoints.choices import SavepointState
from controlplane.checkpoints.models import Savepoint
from controlplane.topologies.choices import Outputs
from controlplane.topologies.former import (
    former_cleared,
    former_learn,
    former_uncleared,
    formers_cleared,
    formers_to_clear,
    generation_reached,
    names_cleared_since,
)
from coordination.paths import Paths
from domain.messages import Former
from domain.topology.spec import TOPOLOGY_NAME_PATTERN
from host.environment import Environment
from spark_jobs.driver.epoch_log import epoch_log_directory
from spark_jobs.driver.only_driver import AnotherDriverError, only_driver
from workers.zookeeper import WorkerSession

log = structlog.get_logger(__name__)
_NAME = re.compile(TOPOLOGY_NAME_PATTERN)
AGAIN = timedelta(hours=1)
"""For so long after a topology was cleared a node may store something of it."""


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


def formers_clear_again(coordination: WorkerSession, environment: Environment) -> None:
    """Clear what agents and keepers have stored since, which were still at it when a topology was deleted."""
    names = names_cleared_since(timezone.now() - AGAIN)
    if not names:
        return
    from spark_jobs.state.checkpoint_storage import CheckpointStorage  # loads Arrow

    with closing(CheckpointStorage(environment.checkpoints)) as storage:
        for name in names:
            with suppress(AnotherDriverError), only_driver(epoch_log_directory(environment.home, name), name):
                storage.delete_topology(name)
                if not coordination.exists(Paths.plan(name)):
                    coordination.delete_tree(Paths.topology(name))


def savepoints_remove() -> None:
    """Have the storage drop the savepoints that were deleted."""
    if Savepoint.objects.filter(state=SavepointState.DELETED).exists():
        from controlplane.lifecycle.saving import savepoints_clear  # loads Arrow

        savepoints_clear()


def formers_agree(coordination: WorkerSession) -> None:
    """Have database and ZooKeeper know the same deleted topologies: either may have lost its data."""
    cleared = dict(formers_cleared())
    told = [name for name in coordination.children(Paths.FORMER) or [] if _NAME.fullmatch(name)]
    names = sorted({*cleared, *told})
    found = coordination.get_many([(Paths.former(name), Former) for name in names])
    for name, stored in zip(names, found, strict=True):
        there = -1 if stored is None else stored.value.generation
        if there < cleared.get(name, -1):
            _tell_nodes(coordination, name, cleared[name])
        elif there > generation_reached(name):
            log.warning("deleted topology learned from zookeeper", topology=name, generation=there)
            former_learn(name=name, generation=there)


def _tell_nodes(coordination: WorkerSession, name: str, generation: int) -> None:
    def raised(current: Former | None) -> Former:
        return Former(generation=max(generation, current.generation if current is not None else 0))

    coordination.change(Paths.former(name), Former, raised)
