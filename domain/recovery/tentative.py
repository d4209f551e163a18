"""What queries count for that go on without a part of their input, while plans are made. Pure.

How much of a query's output is left follows from the rates, as in *Tolerating Correlated Failures in
Massively Parallel Stream Processing Engines*, section III. That recovery counts it is ours: of two queries
that cost the same, the one that gives nothing at all comes back first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from domain.fidelity import DIGITS, FidelityModel, Flows, equal_rates
from domain.topology import Topology, split_partition


@dataclass(frozen=True)
class TentativeOutput:
    """What the policy of a topology says of tentative output, and what its partitions give.

    above: operators whose queries give tentative output -> the fidelity that it has to be above. worth: what
    complete tentative output counts for, 0 to 1, where final output counts for 1. rates: tuples per second
    that each partition gives; all count the same if any is missing. flows: who reads them, as far as that is
    known. Raises ValueError for a worth that cannot be.
    """

    topology: Topology
    above: Mapping[str, float]
    worth: float
    rates: Mapping[str, float] = field(default_factory=dict)
    flows: Flows = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0.0 <= self.worth <= 1.0:
            raise ValueError(f"tentative output counts for 0 to 1 of final output, not for {self.worth}")

    @cached_property
    def _model(self) -> FidelityModel:
        complete = all(partition in self.rates for partition in self.topology.partitions)
        rates = self.rates if complete else equal_rates(self.topology)
        return FidelityModel(self.topology, rates, "plain", flows=self.flows)

    def left(self, running: Collection[str]) -> dict[str, float]:
        """The fidelity of queries that give tentative output while exactly these partitions run."""
        model = self._model
        flags = model.flags([[model.index[partition] for partition in running]])
        left = model.left(flags)[0]
        shares = {query: round(float(left[model.index[query]]), DIGITS) for query in self.topology.queries}
        return {
            query: share
            for query, share in shares.items()
            if self.above.get(split_partition(query)[0], 1.0) < share < 1.0
        }

    def counted(self, running: Collection[str]) -> dict[str, float]:
        """What these queries count for, as a share of their priority."""
        return {query: self.worth * share for query, share in self.left(running).items()}
