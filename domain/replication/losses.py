"""What each query gives when only some partitions run. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from domain.fidelity import DIGITS, FidelityModel

Outcome = Literal["goes_on", "lacks_input", "stops"]


@dataclass(frozen=True, slots=True)
class QueryLeft:
    """left: the share of the query's output that is not lost, 0 to 1."""

    query: str
    left: float

    @property
    def outcome(self) -> Outcome:
        if self.left <= 0.0:
            return "stops"
        return "lacks_input" if self.left < 1.0 else "goes_on"


@dataclass(frozen=True, slots=True)
class Left:
    """fidelity: of all outputs of the topology, as the model weighs them."""

    fidelity: float
    queries: tuple[QueryLeft, ...]

    def those(self, outcome: Outcome) -> list[str]:
        return [one.query for one in self.queries if one.outcome == outcome]


def what_is_left(model: FidelityModel, runs: Iterable[str]) -> Left:
    """When these partitions run, here or as a replica, and no others."""
    flags = model.flags([[model.index[partition] for partition in runs]])
    left = model.left(flags)[0]
    return Left(
        fidelity=float(model.fidelity(flags)[0]),
        queries=tuple(
            QueryLeft(model.partitions[index], round(min(1.0, max(0.0, float(left[index]))), DIGITS))
            for index in model.outputs
        ),
    )
