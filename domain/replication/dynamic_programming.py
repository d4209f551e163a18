"""The optimal plan, by enumerating unions of minimal complete trees (Algorithm 1 of the paper on PPA)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from domain.fidelity import FidelityModel, Flags
from domain.replication.growth import in_order
from domain.replication.planner import Choice, ReplicationPlanner
from domain.replication.trees import TooLargeError, complete_trees, members

ROWS = 4_096
"""Plans that are compared at once."""


@dataclass(frozen=True)
class DynamicProgramming(ReplicationPlanner):
    """Every union of complete trees within the budget is a candidate; the best one is optimal, because
    partitions outside of complete trees give nothing. Among equals the smallest plan wins, then the first by
    name.

    trees, expansions: how many trees, and how many extensions of a candidate by a tree, are looked at before
        it gives up with `TooLargeError`.
    """

    trees: int = 400
    expansions: int = 150_000
    name: ClassVar[str] = "dynamic_programming"

    def choose(self, model: FidelityModel, budget: int) -> Choice:
        candidates = self._candidates(complete_trees(model, largest=budget, most=self.trees), budget)
        best, fidelity = [0], 0.0  # nothing at all, if no tree fits
        for start in range(0, len(candidates), ROWS):
            some = candidates[start : start + ROWS]
            found = model.fidelity(_flags(some, len(model.partitions)))
            highest = float(found.max())
            if highest >= fidelity:
                ties = [plan for plan, value in zip(some, found, strict=True) if value == highest]
                best = ties if highest > fidelity else best + ties
                fidelity = highest
        chosen = min(best, key=lambda plan: model.order(members(plan)))
        steps = in_order(model, frozenset(members(chosen))).steps
        return Choice(steps, proven=True, note=f"the best of {len(candidates)} possible plans")

    def _candidates(self, trees: list[int], budget: int) -> list[int]:
        """All unions of at most `budget` partitions, by their size. Raises `TooLargeError`."""
        by_size: defaultdict[int, set[int]] = defaultdict(set)
        by_size[0].add(0)
        expanded = 0
        for size in range(budget):
            expanded += len(by_size[size]) * len(trees)
            if expanded > self.expansions:
                raise TooLargeError(
                    f"more than {self.expansions} extensions of plans would have to be compared; ask "
                    "structure_aware instead, or for a smaller budget"
                )
            for plan in by_size[size]:
                for tree in trees:
                    union = plan | tree
                    if union != plan and (larger := union.bit_count()) <= budget:
                        by_size[larger].add(union)
        return [plan for size in sorted(by_size) for plan in by_size[size]]


def _flags(plans: list[int], partitions: int) -> Flags:
    width = (partitions + 7) // 8
    octets = np.frombuffer(b"".join(plan.to_bytes(width, "little") for plan in plans), dtype=np.uint8)
    bits = np.unpackbits(octets.reshape(len(plans), width), axis=1, bitorder="little")
    flags: Flags = bits[:, :partitions].astype(bool)
    return flags
