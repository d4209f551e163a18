"""Which partitions are to have replicas, as rates and priorities change. Pure.

A better plan is no reason to move replicas by itself: a replica that moves has to replay, and rates change
back. So the plan that there is, grown to the budget, stays until a fresh one has been better by a margin at
several looks in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

MARGIN = 0.02
"""Fidelity that a fresh plan has to gain."""

LOOKS = 4
"""At so many looks in a row."""

Fidelity = Callable[[Sequence[str]], float]


@dataclass(frozen=True, slots=True)
class Target:
    """partitions: those that are to have a replica, the most important first. better: at how many looks in a
    row a fresh plan has been better by the margin."""

    partitions: tuple[str, ...] = ()
    better: int = 0


def adapt(target: Target, fresh: Sequence[str], *, budget: int, fidelity: Fidelity) -> Target:
    """The target from now on. fresh: the plan for the present rates and this budget, the most important
    first. fidelity: what a set of replicas keeps at the present rates."""
    if len(target.partitions) > budget:
        return Target(tuple(fresh))
    grown = list(target.partitions)
    grown += [partition for partition in fresh if partition not in target.partitions]
    del grown[max(budget, len(target.partitions)) :]
    better = fidelity(fresh) - fidelity(grown) > MARGIN
    if not better:
        return Target(tuple(grown))
    if target.better + 1 >= LOOKS:
        return Target(tuple(fresh))
    return Target(tuple(grown), target.better + 1)
