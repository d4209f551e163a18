"""Looking at stored checkpoints: what each holds, and whether every file is what its manifest says. Changes
nothing: what is damaged is set aside by what restores it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from domain.topology import directory_partition
from spark_jobs.state.checkpoint_storage import CheckpointStorage, Deployment
from spark_jobs.state.sealed import DamagedError

Progress = Callable[[str, int, int], None]
"""What is looked at, how many files were, and of how many."""


@dataclass(slots=True, kw_only=True)
class PartitionLook:
    """A partition in a checkpoint: the files that its manifest names, their bytes, and what is wrong."""

    partition: str
    files: int = 0
    bytes: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class CheckpointLook:
    """complete: the control plane knows it as complete and stored, so all of it must be there: a manifest of
    each of the `expected` partitions. missing: those without one that another complete checkpoint has."""

    checkpoint: int
    complete: bool
    expected: int = 0
    partitions: list[PartitionLook] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def unnamed(self) -> int:
        """Partitions without a manifest that no other checkpoint names either."""
        return max(0, self.expected - len(self.partitions) - len(self.missing))

    @property
    def damaged(self) -> bool:
        """Whether it cannot be restored although it is complete."""
        wrong = any(one.problems for one in self.partitions)
        return self.complete and (wrong or bool(self.missing) or self.unnamed > 0)


def look(
    storage: CheckpointStorage,
    deployment: Deployment,
    *,
    complete: Mapping[int, int],
    chosen: int | None = None,
    content: bool,
    progress: Progress,
) -> list[CheckpointLook]:
    """The checkpoints of a deployment, ascending, or the chosen one. complete: those that must be whole, and
    how many partitions each has. content: whether each file is read and compared with its checksum; a file
    that several share is read once. Raises `StorageError`."""
    expected = set(complete)
    numbers = sorted(expected.union(storage.checkpoints(deployment)))
    here = {
        number: storage.partitions(deployment, number)
        or storage.earlier_partitions(deployment.topology, number)
        for number in numbers
    }
    all_of_them = {directory for number in expected for directory in here[number]}
    # A version of the topology may have other partitions than the one before.
    lacking = {number for number, count in complete.items() if len(here[number]) < count}
    looks = [
        CheckpointLook(
            checkpoint=number,
            complete=number in expected,
            expected=complete.get(number, 0),
            missing=sorted(
                directory_partition(one)
                for one in all_of_them.difference(here[number])
                if number in lacking or number not in complete
            ),
        )
        for number in numbers
        if chosen in (None, number)
    ]
    known: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="resurge-checkpoints-") as name:
        for one in looks:
            for directory in here[one.checkpoint]:
                one.partitions.append(
                    _looked(
                        storage,
                        deployment,
                        one.checkpoint,
                        directory_partition(directory),
                        known if content else None,
                        Path(name) / "file",
                        progress,
                    )
                )
    return looks


def _looked(
    storage: CheckpointStorage,
    deployment: Deployment,
    checkpoint: int,
    partition: str,
    known: dict[str, str] | None,
    target: Path,
    progress: Progress,
) -> PartitionLook:
    """known: what is wrong with the files that were read, by path."""
    found = PartitionLook(partition=partition)
    try:
        where = storage.find(deployment, checkpoint, partition)
    except DamagedError as error:
        found.problems.append(str(error))
        return found
    entries = where.manifest.files()
    found.files, found.bytes = len(entries), where.manifest.bytes
    for number, entry in enumerate(entries if known is not None else ()):
        progress(f"checkpoint {checkpoint}, {partition}", number, len(entries))
        path = where.file(entry)
        if known is not None and path not in known:
            known[path] = ""
            try:
                storage.fetch(where, entry, target)
            except DamagedError as error:
                known[path] = str(error)
        if known is not None and known[path]:
            found.problems.append(known[path])
    return found
