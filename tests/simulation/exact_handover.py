"""The handover of one partition's state in the exact simulation: the product's steps on disks in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from domain.execution.instructions import HandOver
from spark_jobs.executor import handover
from tests.simulation.exact_disk import MemoryStorage
from tests.simulation.exact_job import TaskDiedError

if TYPE_CHECKING:
    from tests.simulation.exact_run import ExactRun


def hand_over(run: ExactRun, told: HandOver, partition: str) -> bool:
    """Whether the state of the partition is on its new node. Between any two steps a node may die, or a file
    may not be written."""
    source, target = told.sources[partition], told.plan.assignment[partition]

    def storage(node: str) -> MemoryStorage | None:
        disk = run.disks.get(node)
        if disk is None:
            return None
        return MemoryStorage(
            run.outside,
            disk[run.topology.name],
            partition,
            attempt=told.attempt,
            generation=told.plan.generation,
            step=lambda: step(node),
        )

    def step(node: str) -> None:
        run.interrupt()
        if node not in run.disks:
            raise TaskDiedError
        if run.flaws and run.rng.random() < 0.002:
            raise OSError("no space left on device")

    old, new = storage(source), storage(target)
    if old is None or new is None:
        return False
    last = told.epochs[partition]
    assert told.since is not None, "the guarantee is exact"
    try:
        found = old.store.versions(after=told.since, last=last)
        versions: dict[int, Any] = {version.manifest.epoch: version for version in found}
        handover.receive_state(new, versions, since=told.since, last=last)  # type: ignore[arg-type]  # in memory
    except (LookupError, OSError, TaskDiedError):
        return False
    return True
