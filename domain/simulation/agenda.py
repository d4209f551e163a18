"""What is due when: the queue of a discrete-event simulation.

Events at the same moment happen in the order in which they were entered, so a simulation has one course.
*Routine* events (looking, sampling, periodic checkpoints) recur by themselves; while nothing else is due,
nothing new can happen.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

Action = Callable[[], None]


class Agenda:
    """Simulated time and what is to happen in it."""

    def __init__(self, start: float) -> None:
        self.now = start
        self._queue: list[tuple[float, int, bool, Action]] = []
        self._entered = 0
        self._matters = 0

    def at(self, moment: float, action: Action, *, routine: bool = False) -> None:
        """Do this at `moment`, or now if that has passed."""
        heapq.heappush(self._queue, (max(moment, self.now), self._entered, routine, action))
        self._entered += 1
        self._matters += not routine

    def after(self, delay: float, action: Action, *, routine: bool = False) -> None:
        self.at(self.now + delay, action, routine=routine)

    @property
    def pending(self) -> bool:
        """Whether anything but routine is due."""
        return self._matters > 0

    @property
    def next_at(self) -> float | None:
        return self._queue[0][0] if self._queue else None

    def step(self) -> None:
        """Go to the next event and let it happen."""
        self.now, _, routine, action = heapq.heappop(self._queue)
        self._matters -= not routine
        action()
