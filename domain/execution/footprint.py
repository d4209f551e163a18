"""Where a job has something to do. Pure.

Its tasks are started only there: a node that none of its partitions is on does not lengthen it, and a stage
without any is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from domain.execution.job import Job, Layout

RETURNS = 0
"""The level in which is sent what feedback streams bring, before any partition reads it."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """The stages `levels`, each with one task on each of `slots`; both ascending."""

    slots: tuple[int, ...]
    levels: tuple[int, ...]


def footprint_of(layout: Layout, job: Job) -> Footprint:
    """Of a job; everywhere where something is to be done on every node: buffers dropped, old states trimmed,
    a checkpoint acknowledged by those that had reached it before."""
    everywhere = Footprint(tuple(range(len(layout.nodes))), tuple(range(layout.level_count)))
    if job.checkpoint or job.trim_below or job.drop_buffers or job.lane is None:
        return everywhere
    tasks = {(layout.slots[p], layout.levels[p]) for p in job.lane.starts if p in layout.slots}
    for slot, node in enumerate(layout.nodes):
        tasks |= {(slot, layout.levels[p]) for p in job.lane.serves.get(node, ())}
    tasks |= {(layout.slots[p], RETURNS) for p in job.lane.returns if p in layout.slots}
    if not tasks:
        return everywhere
    slots, levels = zip(*tasks, strict=True)
    return Footprint(tuple(sorted(set(slots))), tuple(sorted(set(levels))))
