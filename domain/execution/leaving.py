"""The checkpoint that an undeployed topology leaves behind, so that it can go on from there. Pure.

Nothing runs after it: what is in the outputs is exactly what its state has seen, and even a version that
computes otherwise can go on without changing a row. It is taken if it needs only what runs anyway. A topology
that is not well stops at once, and one whose checkpoint fails or takes too long stops without.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Leaving:
    """`since`: when the topology was asked to stop, None while it is to run. `begun`: the generation under
    which its last checkpoint was begun, None before that."""

    since: float | None = None
    begun: int | None = None

    @property
    def under_way(self) -> bool:
        return self.since is not None

    def ends(
        self, at: float, *, well: bool, complete: bool, pending: bool, generation: int, timeout: float
    ) -> bool:
        """Whether there is nothing more to wait for. well: all partitions run and have applied the same
        epoch. complete: that epoch is in a complete checkpoint. pending: one is under way. timeout: seconds
        that may be spent on it."""
        if self.since is None:
            self.since = at
        failed = self.begun is not None and not (pending and self.begun == generation)
        return complete or failed or not well or at - self.since > timeout

    def stay(self) -> None:
        """The topology is to run."""
        self.since = self.begun = None
