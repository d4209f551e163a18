"""Removing from a node's disk what no deployment needs any more.

A topology that was deleted, or that was deployed again on other nodes, would leave its state here until its
name is used on this node. What shows that a deployment is over are numbers in ZooKeeper, never that something
is missing there: a ZooKeeper that lost its data gets it again, and state that is gone has to be restored.

The same with partitions that were moved, or restored elsewhere: what they left here is needed until a global
checkpoint is complete under the plan that put them there. After it whatever is restored starts from that
checkpoint, or a later one.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from coordination.session import CoordinationUnavailableError
from domain.messages import DriverStatus, Former, LatestCheckpoint, Plan, Replicas
from domain.topology.spec import TOPOLOGY_NAME_PATTERN
from spark_jobs.state.node_home import forget_partitions, forget_up_to, topologies_kept

log = structlog.get_logger()

LOOK_INTERVAL = 30.0
"""Seconds between two looks at the disk. A task that was frozen may write again at any time."""
RETRY_INTERVAL = 0.5
"""Seconds, until ZooKeeper has answered for the first time."""
NOTHING = -1
UNCHANGED_FOR = 600.0
"""Seconds for which nothing may have been written to what a partition left here: a plan that was made since
the look at ZooKeeper may bring it back."""

_NAME = re.compile(TOPOLOGY_NAME_PATTERN)


@dataclass(frozen=True, slots=True)
class Over:
    """Deployments of a topology up to `deployed` are over; `gone`: it was deleted, and none has its name.
    kept: of the present deployment, which is `of`, the partitions whose states and buffers this node needs;
    None where that is not known."""

    deployed: int = NOTHING
    gone: bool = False
    of: int = NOTHING
    kept: frozenset[str] | None = None


def over(former: Former | None, plan: Plan | None, driver: DriverStatus | None) -> Over:
    """What these say of the deployments of a name. plan: the one in force; None where there is none.

    Deployments of deleted topologies are over, except the one of the plan in force, whatever its number: the
    numbers of a database that was lost may begin again. Of a topology that exists, the ones before are over
    once its driver has applied a plan of the present one: until then the driver of an earlier one may run.
    """
    if plan is None:
        return Over() if former is None else Over(former.generation, gone=True)
    before = plan.deployed - 1
    if driver is not None and driver.generation >= plan.deployed:
        return Over(max(before, NOTHING))
    return Over(max(min(before, former.generation), NOTHING)) if former is not None else Over()


def kept_here(
    node: str,
    *,
    plan: Plan | None,
    driver: DriverStatus | None,
    latest: LatestCheckpoint | None,
    replicas: Replicas | None,
) -> frozenset[str] | None:
    """The partitions whose states and buffers this node needs. None before a global checkpoint is complete
    under the plan in force, which shows that nothing depends on where partitions were before."""
    if plan is None or driver is None or latest is None:
        return None
    if not plan.generation == driver.generation == latest.generation:
        return None
    placed = [*plan.assignment.items(), *driver.acting.items()]
    placed += [(partition, shadow.node) for partition, shadow in driver.shadows.items()]
    placed += replicas.assignment.items() if replicas is not None else ()
    return frozenset(partition for partition, where in placed if where == node)


class Forgetting(threading.Thread):
    """Looks at the disk, asks what is not needed any more, and removes it."""

    def __init__(
        self,
        *,
        node_home: Path,
        ask: Callable[[Collection[str]], Mapping[str, Over]],
        on_gone: Callable[[str], None],
    ) -> None:
        """ask: which deployments of these names are over. Raises `CoordinationUnavailableError`. on_gone:
        called with each name that no topology has any more; the files of executors are not ours."""
        super().__init__(name="forgetting", daemon=True)
        self._home = node_home
        self._ask = ask
        self._on_gone = on_gone
        self._finished = threading.Event()
        self.looked = threading.Event()
        """Set once; before that, a snapshot that waits for its upload may be of a deleted topology."""

    def finish(self) -> None:
        self._finished.set()
        self.join(5)

    def run(self) -> None:
        while not self._finished.wait(LOOK_INTERVAL if self.looked.is_set() else RETRY_INTERVAL):
            self.look()

    def look(self) -> None:
        """Once. What fails is tried again with the next look."""
        try:
            names = [name for name in topologies_kept(self._home) if _NAME.fullmatch(name)]
            for name, one in sorted((self._ask(names) if names else {}).items()):
                if self._finished.is_set():
                    return
                removed = forget_up_to(self._home, name, one.deployed, gone=one.gone)
                if removed:
                    log.info("earlier deployments forgotten", topology=name, directories=len(removed))
                if one.gone:
                    self._on_gone(name)
                if one.kept is not None:
                    before = time.time() - UNCHANGED_FOR
                    left = forget_partitions(self._home, name, one.of, keep=one.kept, before=before)
                    if left:
                        log.info("partitions that are elsewhere forgotten", topology=name, partitions=left)
        except (CoordinationUnavailableError, OSError) as error:
            log.warning("the node's disk was not looked through", error=str(error))
            if isinstance(error, CoordinationUnavailableError):
                return
        self.looked.set()
