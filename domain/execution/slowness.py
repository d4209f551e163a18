"""Nodes that are slow but not dead: their tasks take a multiple of the time of others' for the same work.

A job ends with its slowest node, so one that is throttled, or whose disk or memory fails, would make every
query late. The measure is the *stretch* of a node's tasks: seconds that they took for each second of CPU
time. Tasks that have more to do take more of both, and on a machine that is short of CPU all nodes are
stretched; one that is slow stands out. Pure.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

from domain.execution.job import TaskReport

STRETCHED = 4.0
"""Times as long as the median of the other nodes for the same processor time."""
RECOVERED = 1.5
LONGEST = 2.0
"""Times as long as the longest of the other nodes: what is stretched and still short delays no one."""
LEAST = 0.1
"""Seconds that a node's tasks must have worked in a job to say anything."""
JOBS = 5
"""In a row that must say the same."""


@dataclass(frozen=True, slots=True)
class _Work:
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def stretch(self) -> float:
        return self.seconds / max(self.cpu_seconds, 1e-4)


@dataclass(slots=True)
class Slowness:
    """`nodes`: those that are slow now."""

    nodes: frozenset[str] = frozenset()
    _usual: float = 1.0
    _in_a_row: dict[str, int] = field(default_factory=dict)

    def clear(self) -> None:
        """What runs where has changed: what was in a row does not count any more."""
        self._in_a_row.clear()

    def forget(self, present: Iterable[str]) -> None:
        """Only these nodes have any partition now."""
        self.nodes &= frozenset(present)
        self.clear()

    def observe(self, reports: Iterable[TaskReport]) -> None:
        """What the tasks of one job say of the nodes that they ran on."""
        works = _works(reports)
        known = {node: work for node, work in works.items() if node not in self.nodes}
        if len(known) > 1:
            self._usual = statistics.median(work.stretch for work in known.values())
        for node, work in works.items():
            changed = self._well(work) if node in self.nodes else _stands_out(node, known)
            count = self._in_a_row.get(node, 0) + 1 if changed else 0
            self._in_a_row[node] = count
            if count >= JOBS:
                self.nodes ^= {node}
                self._in_a_row[node] = 0

    def _well(self, work: _Work) -> bool:
        return work.stretch <= RECOVERED * max(self._usual, 1.0)


def _works(reports: Iterable[TaskReport]) -> dict[str, _Work]:
    works: dict[str, _Work] = {}
    for report in reports:
        if not report.misplaced:
            before = works.get(report.node, _Work())
            works[report.node] = _Work(
                before.seconds + report.working, before.cpu_seconds + report.cpu_seconds
            )
    return {node: work for node, work in works.items() if work.cpu_seconds > 0.0}


def _stands_out(node: str, works: dict[str, _Work]) -> bool:
    others = [work for other, work in works.items() if other != node]
    work = works[node]
    return (
        bool(others)
        and work.seconds >= LEAST
        and work.stretch >= STRETCHED * max(1.0, statistics.median(one.stretch for one in others))
        and work.seconds >= LONGEST * max(one.seconds for one in others)
    )
