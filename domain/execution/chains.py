"""Which stages of a job run beside each other. Pure.

The lanes of a job do not wait for each other: a fork starts from a manifest that stays, buffers that are
read were written by earlier jobs, and no partition advances in two lanes. So each lane is a chain of stages
of its own, on the nodes and levels that it concerns. What replays on a node that is new to the work then
lengthens no stage of the queries that give output, unless both are on the same node.
"""

from __future__ import annotations

from dataclasses import dataclass

from domain.execution.job import Job, Layout
from domain.topology import split_partition


@dataclass(frozen=True, slots=True)
class Chain:
    """The stages `levels`, each with one task on each of `slots`. lane: number of the lane that they run;
    None for all lanes of the job, one after the other."""

    lane: int | None
    slots: tuple[int, ...]
    levels: tuple[int, ...]


def chains_of(layout: Layout, job: Job) -> list[Chain]:
    """The chains of a job; one where something is to be done on every node besides: buffers dropped, old
    states trimmed, a checkpoint acknowledged by those that had reached it before."""
    if job.checkpoint or job.trim_below or job.drop_buffers or not job.lanes:
        return [Chain(None, tuple(range(len(layout.nodes))), tuple(range(layout.level_count)))]
    chains: list[Chain] = []
    for number, lane in enumerate(job.lanes):
        concerned = [p for p in {*lane.starts, *lane.serves} if p in layout.slots]
        slots = tuple(sorted({layout.slots[p] for p in concerned}))
        levels = tuple(sorted({layout.levels[split_partition(p)[0]] for p in concerned}))
        if slots:
            chains.append(Chain(number, slots, levels))
    return chains
