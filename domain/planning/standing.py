"""A placement while its partitions are moved about: what it costs in time, and what a rack's loss takes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from domain.planning.epoch_time import EpochTime, Shares, Unit
from domain.planning.rack_exposure import RackExposure

Move = tuple[Unit, int, int]
"""What goes from which node to which."""


class Standing:
    """The cost is the time of an epoch, times one and `price` times the exposure to the loss of a rack.

    Every change that is kept lowers it. As the exposure is between 0 and 1, no number of changes makes
    epochs longer by more than the share `price`.
    """

    def __init__(self, time: EpochTime, exposure: RackExposure | None = None, price: float = 0.0) -> None:
        self.time = time
        self.exposure = exposure
        self.price = price
        self.where: dict[Unit, int] = {}
        self.made: list[Move] = []

    def put(self, unit: Unit, node: int, *, movable: bool = True) -> None:
        self.time.put(unit, node, movable=movable)
        self.where[unit] = node
        if self.exposure is not None:
            self.exposure.put(unit, node)

    def exposed(self) -> float:
        return 0.0 if self.exposure is None else self.exposure.value()

    def cost(self) -> float:
        return self.time.cost() * (1.0 + self.price * self.exposed())

    def best_move(self, staying: Collection[Unit] = ()) -> Move | None:
        """The move that lowers the cost most, of what is on the busiest nodes. staying: units that do not
        move."""
        if self.exposure is None:
            return self.time.best_move()
        time, now = self.time.cost(), self.cost()

        def weighed(unit: Unit, node: int, saved: Shares) -> Shares:
            if unit in staying or self.exposure is None:
                return np.full_like(saved, -np.inf)
            factor = 1.0 + self.price * self.exposure.moved(unit, node)
            return now - (time - saved) * factor

        return self.time.best_move(weighed)

    def swap(self) -> bool:
        """Let the two units change places that shorten epochs most; False, and nothing has changed, if no two
        lower the cost by it."""
        pair = self.time.best_swap()
        if pair is None:
            return False
        made, cost = len(self.made), self.cost()
        self.carry_out(pair)
        if self.cost() < cost:
            return True
        self.undo(made)
        return False

    def carry_out(self, moves: Sequence[Move]) -> None:
        for unit, node, target in moves:
            self.time.carry_out(unit, node, target)
            self._moved(unit, node, target)
            self.made.append((unit, node, target))

    def undo(self, kept: int = 0) -> None:
        """Back to the first `kept` moves that were carried out."""
        while len(self.made) > kept:
            unit, node, target = self.made.pop()
            self.time.carry_out(unit, target, node)
            self._moved(unit, target, node)

    def tried(self, units: Sequence[Unit], among: NDArray[np.bool_]) -> tuple[float, list[Move]] | None:
        """The cost if these went each to its best node `among` those, and the moves; None if one has no room
        there. Nothing changes."""
        mark, moves = self.time.mark(), list[Move]()
        for unit in units:
            node = self.where[unit]
            self.time.take(unit, node)
            target = self.time.best_node(unit, among)
            if target is None:
                break
            self.time.put(unit, target, movable=False)
            self._moved(unit, node, target)
            moves.append((unit, node, target))
        cost = self.cost()
        for unit, node, target in reversed(moves):
            self._moved(unit, target, node)
        self.time.reset(mark)
        return (cost, moves) if len(moves) == len(units) else None

    def _moved(self, unit: Unit, node: int, target: int) -> None:
        self.where[unit] = target
        if self.exposure is not None:
            self.exposure.take(unit, node)
            self.exposure.put(unit, target)
