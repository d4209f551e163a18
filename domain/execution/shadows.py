"""Shadows: copies of partitions on other nodes, which take their places when those are lost. Pure.

A shadow keeps its state under the name of its partition, so that a takeover moves no file.
`domain.topology.copies` adds them to a topology.

No shadow counts as further than its partition. What it has beyond that on its disk it computes again when it
acts: its partition may not have written the rows, nor sent them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from domain.execution.job import PartitionReport
from domain.messages import Plan, ShadowStatus
from domain.topology import Topology, partition_id
from domain.topology.copies import partition_of, shadow_of


@dataclass(slots=True)
class Shadows:
    """By the name of the shadow: `homes`, its node; `progress`, the last epoch it applied; `restore`, the
    checkpoint to install before it runs. absent: those whose node cannot be reached."""

    topology: Topology
    homes: dict[str, str] = field(default_factory=dict)
    progress: dict[str, int] = field(default_factory=dict)
    restore: dict[str, int] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)

    @property
    def operators(self) -> frozenset[str]:
        """Those of which any partition has a shadow."""
        return frozenset(partition_of(name).partition("[")[0] for name in self.homes)

    @property
    def missing(self) -> list[str]:
        """Names of the view that stand for nothing: partitions without a shadow, of operators with some."""
        return [
            shadow
            for operator in self.operators
            for index in range(self.topology.by_name[operator].parallelism)
            if (shadow := shadow_of(partition_id(operator, index))) not in self.homes
        ]

    def status(self, progress: Mapping[str, int]) -> dict[str, ShadowStatus]:
        """For operators. progress: of the partitions."""
        return {
            partition_of(shadow): ShadowStatus(
                node=node,
                lacks=progress[partition_of(shadow)] - self.progress[shadow],
                ready=shadow not in self.absent and shadow not in self.restore,
            )
            for shadow, node in self.homes.items()
        }

    def recorded(self) -> dict[str, tuple[str, int]]:
        """What the epoch log says of them: partition -> node and epoch, of those that have state there."""
        return {
            partition_of(shadow): (node, self.progress[shadow])
            for shadow, node in self.homes.items()
            if shadow not in self.restore
        }

    def idle(self, progress: Mapping[str, int], waiting: Collection[str]) -> set[str]:
        """The names of the view that cannot go on now. waiting: partitions that do not; a shadow does not
        pass its partition."""
        level = {
            shadow
            for partition in waiting
            if (shadow := shadow_of(partition)) in self.homes and self.progress[shadow] >= progress[partition]
        }
        return level.union(self.absent, self.missing)

    # ---- where they are --------------------------------------------------------------------------

    def place(self, wanted: Mapping[str, str], homes: Mapping[str, str], checkpoint: int) -> bool:
        """Have shadows of these partitions on these nodes, and no others; True if that is news. One that is
        new begins at the checkpoint. homes: where the partitions are."""
        if not self.differs(wanted, homes):
            return False
        found = self._found(wanted, homes)
        for shadow in [one for one in self.homes if self.homes[one] != found.get(one)]:
            self._drop(shadow)
        new = found.keys() - self.homes.keys()
        self.homes = found
        self.put_back(new, checkpoint)
        return True

    def differs(self, wanted: Mapping[str, str], homes: Mapping[str, str]) -> bool:
        """Whether `place` would change anything."""
        return self._found(wanted, homes) != self.homes

    @staticmethod
    def _found(wanted: Mapping[str, str], homes: Mapping[str, str]) -> dict[str, str]:
        """None is beside its partition, where it would be lost with it."""
        return {
            shadow_of(partition): node
            for partition, node in sorted(wanted.items())
            if partition in homes and homes[partition] != node
        }

    def _drop(self, shadow: str) -> None:
        del self.homes[shadow], self.progress[shadow]
        self.restore.pop(shadow, None)
        self.absent.discard(shadow)

    def drop(self, partitions: Iterable[str]) -> None:
        """These have no shadow any more."""
        for partition in partitions:
            if shadow_of(partition) in self.homes:
                self._drop(shadow_of(partition))

    # ---- how far they are ------------------------------------------------------------------------

    def put_back(self, shadows: Iterable[str], checkpoint: int) -> None:
        """These start at the checkpoint."""
        for shadow in shadows:
            if shadow in self.homes:
                self.progress[shadow] = self.restore[shadow] = checkpoint

    def completed(self, checkpoint: int) -> None:
        """A newer checkpoint is complete: those that are not as far begin there, which is nearer."""
        self.put_back([s for s, epoch in self.progress.items() if epoch < checkpoint], checkpoint)

    def take(
        self, results: Mapping[str, int], restored: Mapping[str, int], progress: Mapping[str, int]
    ) -> None:
        """A job has ended. results: the last epoch that each has applied, restored: what its tasks were
        told to restore; progress: of the partitions."""
        for shadow, epoch in results.items():
            if shadow not in self.homes or self.restore.get(shadow) not in (None, restored.get(shadow)):
                continue  # it began anew meanwhile, from a newer checkpoint
            self.restore.pop(shadow, None)
            self.progress[shadow] = max(self.progress[shadow], epoch)
        self.keep_behind(progress)

    def keep_behind(self, progress: Mapping[str, int]) -> None:
        """None is further than its partition."""
        for shadow, epoch in self.progress.items():
            self.progress[shadow] = min(epoch, progress[partition_of(shadow)])

    def lost(self, results: Mapping[str, PartitionReport], checkpoint: int) -> set[str]:
        """Those whose node lacks their state begin anew at the checkpoint."""
        lost = {shadow for shadow, one in results.items() if one.missing and shadow in self.homes}
        self.put_back(lost, checkpoint)
        return lost

    def ready(self, partitions: Collection[str]) -> dict[str, str]:
        """Which of these partitions have a shadow that can act: partition -> node."""
        return {
            partition: self.homes[shadow]
            for partition in sorted(partitions)
            if (shadow := shadow_of(partition)) in self.homes
            and shadow not in self.absent
            and shadow not in self.restore
        }


def under(plan: Plan, acting: Mapping[str, str]) -> Plan:
    """What a plan means where shadows act that it does not know of: these stay where they are, and are not
    put back alone. acting: partition -> node."""
    stay = unknown_to(plan, acting)
    if not stay:
        return plan
    return msgspec.structs.replace(
        plan,
        assignment={**plan.assignment, **stay},
        restore=[partition for partition in plan.restore if partition not in stay],
    )


def unknown_to(plan: Plan, acting: Mapping[str, str]) -> dict[str, str]:
    """Those takeovers that a plan does not know of."""
    return {p: node for p, node in acting.items() if plan.acting.get(p) != node}


def unknown_now(plan: Plan, acting: Mapping[str, str], applied: int) -> dict[str, str]:
    """The same for what a driver said acts when it had applied the plan of generation `applied`: of what took
    over after that, this plan knows nothing, whatever it says of earlier times."""
    return dict(acting) if plan.generation <= applied else unknown_to(plan, acting)


def homes_now(plan: Plan, acting: Mapping[str, str], applied: int) -> dict[str, str]:
    """Partition -> node: where a plan has it, or the replica that has taken over since."""
    return {**plan.assignment, **unknown_now(plan, acting, applied)}
