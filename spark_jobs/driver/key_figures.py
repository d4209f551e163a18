"""What became of the keys of a topology whose guarantee is bounded, by node, as tasks have reported it."""

from __future__ import annotations

from collections.abc import Sequence

from domain.execution.job import KeeperStatus, KeyCounts, TaskReport
from domain.messages import NodeKeys


class KeyFigures:
    """Counts since the driver started, and what nodes said last. Of a node on which nothing ran in the last
    job only the counts are told: what waits there, or has changed, is not to come."""

    def __init__(self) -> None:
        self._counts: dict[str, KeyCounts] = {}
        self._left: dict[str, tuple[str, int, float]] = {}
        self._keepers: dict[str, KeeperStatus] = {}
        self._present: frozenset[str] = frozenset()

    def take(self, reports: Sequence[TaskReport]) -> None:
        self._present = frozenset(one.node for one in reports if not one.misplaced) or self._present
        for report in reports:
            if report.misplaced:
                continue
            if report.keeper is not None:
                self._keepers[report.node] = report.keeper
            for partition, one in report.partitions.items():
                if one.keys is not None:
                    self._counts[report.node] = self._counts.get(report.node, KeyCounts()).plus(one.keys)
                    self._left[partition] = report.node, one.keys.dirty, one.keys.oldest

    def told(self) -> dict[str, NodeKeys]:
        found: dict[str, NodeKeys] = {}
        for node in sorted(self._counts.keys() | self._keepers.keys()):
            keeper = self._keepers.get(node, KeeperStatus())
            counts = self._counts.get(node, KeyCounts())
            if node not in self._present:
                keeper = KeeperStatus(stored=keeper.stored, bytes=keeper.bytes, segments=keeper.segments)
            here = {node} & self._present
            left = [(dirty, oldest) for where, dirty, oldest in self._left.values() if where in here]
            found[node] = NodeKeys(
                stored=keeper.stored,
                stored_bytes=keeper.bytes,
                segments=keeper.segments,
                waiting=keeper.waiting,
                storing_failures=keeper.storing.failures,
                storing_bypassed_until=keeper.storing.until,
                fetching_failures=keeper.fetching.failures,
                fetching_bypassed_until=keeper.fetching.until,
                error=keeper.error,
                fetched=counts.fetched,
                unknown=counts.unknown,
                unanswered=counts.unanswered,
                bypassed=counts.bypassed,
                refused=counts.refused,
                lost_rows=counts.lost_rows,
                changed=sum(dirty for dirty, _ in left),
                oldest=round(max((oldest for _, oldest in left), default=0.0), 3),
            )
        return found
