"""The provider of nodes: what is asked of it, and when it comes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from domain.planning import UniformDelay
from domain.simulation.agenda import Agenda
from domain.simulation.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    """A node that has come: in answer to the request `key`, or of its own accord (`key` is empty)."""

    at: float
    name: str
    capacity: float
    rack: str
    key: str


@dataclass(frozen=True, slots=True)
class _Asked:
    key: str
    capacity: float
    rack: str


class Provider:
    """Nodes come at the given moments, in the order of the requests; or each request draws its
    own delay from its key and the seed, so that what one coordinator asks for comes no sooner or later than
    what another one asks for under the same key."""

    def __init__(self, scenario: Scenario, agenda: Agenda, come: Callable[[Coming], None]) -> None:
        self._scenario, self._agenda, self._come = scenario, agenda, come
        self._open: list[_Asked] = []
        self._cancelled: set[str] = set()
        self._taken = {node.name for node in scenario.nodes}
        self._count = 0
        self.spare_capacity = scenario.arrival_capacity or max(node.capacity for node in scenario.nodes)
        if not isinstance(scenario.arrivals, UniformDelay):
            for seconds in sorted(scenario.arrivals):
                agenda.at(scenario.first_failure + seconds, self._arrive)

    def ask(self, key: str, *, capacity: float, rack: str) -> None:
        """Ask for a node; asking twice under one key asks once."""
        asked = _Asked(key, capacity, rack)
        if isinstance(self._scenario.arrivals, UniformDelay):
            delay = self._scenario.arrivals
            drawn = random.Random(f"{self._scenario.seed}/{key}")  # noqa: S311 - reproducible, not secret
            wait = drawn.uniform(delay.shortest, delay.longest)
            self._agenda.after(wait, lambda: self._deliver(asked))
        else:
            self._open.append(asked)

    def cancel(self, key: str) -> None:
        """The request was given up; what it would have brought does not come."""
        self._cancelled.add(key)
        self._open = [asked for asked in self._open if asked.key != key]

    def _arrive(self) -> None:
        spare = _Asked("", self.spare_capacity, "")
        self._deliver(self._open.pop(0) if self._open else spare)

    def _deliver(self, asked: _Asked) -> None:
        if asked.key in self._cancelled:
            return
        self._count += 1
        while f"replacement-{self._count}" in self._taken:
            self._count += 1
        self._come(
            Coming(
                at=self._agenda.now,
                name=f"replacement-{self._count}",
                capacity=asked.capacity,
                rack=asked.rack,
                key=asked.key,
            )
        )
