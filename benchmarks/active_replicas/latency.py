"""How long partitions took after a kill, from the commits in the epoch log. Pure.

`output`: until a partition had applied the first epoch that was not complete at the kill. So it had applied
again all that it had before, which is when the paper calls it recovered. `caught_up`: until it was as far as
its input, but for two epochs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from benchmarks.epoch_times import EpochTimes
from domain.topology import Topology

SLACK = 2
"""Epochs that a partition which keeps pace may lack when it commits one: on a busy machine jobs have two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Seconds since the kill; None for what did not happen. `active`: the slowest of the lost partitions that
    a replica can go on with exactly. `tentative`: the first tentative epoch of the query."""

    output: float | None
    caught_up: float | None
    active: float | None
    tentative: float | None


def newest_due(times: EpochTimes, moment: float, epoch: float) -> int:
    """The newest epoch whose input was complete at a moment, also if nothing had planned it yet."""
    known = [(at, number) for number, at in times.due.copy().items() if at <= moment]
    if not known:
        return 0
    at, number = max(known)
    return number + math.floor((moment - at) / epoch)


def keeps_pace(times: EpochTimes, moment: float, epoch: float) -> bool:
    """Whether all partitions have applied what was due at a moment, but for `SLACK`."""
    applied = times.commits[-1].committed if times.commits else 0
    return newest_due(times, moment, epoch) - applied <= SLACK


def caught_up(times: EpochTimes, partition: str, moment: float, epoch: float) -> float | None:
    """When a partition had, after it gave output, applied all epochs that were due but `SLACK`."""
    since = times.output(partition, moment)
    if since is None:
        return None
    for commit in times.commits:
        if commit.at >= since and commit.of(partition) >= newest_due(times, commit.at, epoch) - SLACK:
            return commit.at
    return None


def going_on(topology: Topology, lost: Collection[str], replicated: Collection[str]) -> list[str]:
    """The lost partitions that have a replica, and upstream of which nothing is lost without one: they need
    nothing that has to be restored."""
    missing = set(lost) - set(replicated)
    found: list[str] = []
    waits: set[str] = set()
    for partition in topology.partitions:  # inputs first
        if partition in missing or waits.intersection(topology.upstream(partition)):
            waits.add(partition)
        elif partition in lost:
            found.append(partition)
    return found


def latencies(
    times: EpochTimes,
    *,
    killed: float,
    epoch: float,
    lost: Collection[str],
    active: Collection[str],
    query: str,
    tentative: Mapping[int, float],
) -> Latencies:
    """tentative: epoch -> when its tentative rows were there (Unix time)."""
    first = times.due_after(killed)
    later = [at for number, at in tentative.items() if first is not None and number >= first]
    return Latencies(
        output=_seconds([times.output(query, killed)], killed),
        caught_up=_seconds((caught_up(times, one, killed, epoch) for one in [*lost, query]), killed),
        active=_seconds((times.output(one, killed) for one in active), killed) if active else None,
        tentative=round(min(later) - killed, 3) if later else None,
    )


def _seconds(moments: Iterable[float | None], killed: float) -> float | None:
    """Of the last of these moments; None if one of them did not come."""
    found = list(moments)
    known = [one for one in found if one is not None]
    return round(max(known) - killed, 3) if known and len(known) == len(found) else None
