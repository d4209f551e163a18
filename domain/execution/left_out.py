"""Where the guarantee is bounded: epochs that pass without some queries. Pure.

A query that does not run in an epoch, or fails in it, goes on with its state before it, so the rows of that
epoch would count again with later ones. An attempt that was given up may have written them, or still write
them on a node that was frozen: they are left out before readers see the epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from domain.execution.lanes import Lane


class LeftOut:
    """head: the last epoch in the log; drivers before this one may have tried all of these."""

    def __init__(self, queries: Collection[str], *, head: int) -> None:
        self._tried = dict.fromkeys(queries, head)

    def begun(self, lane: Lane | None) -> None:
        """A job runs this lane."""
        for partition, epoch in self._tried.items() if lane is not None else ():
            if lane is not None and partition in lane.starts:
                self._tried[partition] = max(epoch, lane.end(partition))

    def passed(self, reached: Mapping[str, int], *, before: int, front: int) -> dict[str, range]:
        """Query -> the epochs that have passed without it and that some attempt tried. reached: by partition
        the last epoch that it has applied in a job, which brought all from `before` to `front`."""
        found = {
            query: range(max(before, reached.get(query, 0)) + 1, min(front, tried) + 1)
            for query, tried in self._tried.items()
        }
        return {query: epochs for query, epochs in found.items() if epochs}
