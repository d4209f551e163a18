"""The best replication plan as a mixed-integer program, solved by HiGHS.

    maximise  sum_t weight_t y_t                 over the output partitions t
    where     y_t <= x_t                         x_t: t has a replica
              y_t <= sum_s share_s y_s           s: the partitions that t reads from
              sum_t x_t <= budget
              x binary, 0 <= y <= 1

Without joins this is exact: y_t is what is left of t's output. A join's output is a product, which is linear
again if one input flows through the other: what is left of the first input is what the sources of the second
one give, in a copy of the program above the second input. As x is binary, min(x, y) = x y holds all along the
copy. Copies grow with joins of joins; beyond `COLUMNS` joins are bounded by each of their inputs instead,
which a product never
exceeds: the result is then an upper bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from domain.binary_program import EXACT, BinaryProgram
from domain.fidelity import FidelityModel
from domain.replication.reach import Links

COLUMNS = 20_000
WHOLE = None
"""What the sources of the topology itself are fed with: everything."""


@dataclass(frozen=True, slots=True)
class Solved:
    """chosen: partition indices, None if the solver found no plan. bound: no plan has a higher fidelity."""

    chosen: frozenset[int] | None
    bound: float
    status: str


class ReplicationProgram:
    """Columns: x by partition index, then y and what reaches inputs, in an order in which each depends only
    on columns before it."""

    def __init__(self, model: FidelityModel, budget: int, *, columns: int = COLUMNS) -> None:
        self.model, self.links, self.most = model, Links.of(model), columns
        self.count = len(model.partitions)
        self.relaxed = False
        self.definitions: list[tuple[int | None, tuple[int, ...], tuple[tuple[int, float], ...]]] = []
        self._outputs: dict[tuple[int, int | None], int] = {}
        self._inputs: dict[tuple[int, int | None], int] = {}
        self._wholes: dict[int, int] = {}
        self._ancestors = self._count_ancestors()
        costs = dict.fromkeys(range(self.count), 0.0)
        # Operators are in topological order: what a column depends on is there, so nothing recurses deeply.
        for one in range(self.count):
            self._output(one, WHOLE)
        for one, weight in zip(model.outputs, model.weights.tolist(), strict=True):
            column = self._output(one, WHOLE)
            costs[column] = costs.get(column, 0.0) + weight
        objective = np.zeros(self.count + len(self.definitions))
        for column, weight in costs.items():
            objective[column] = weight
        binary = np.arange(self.count)
        self.program = BinaryProgram(objective, binary, {**EXACT, "mip_abs_gap": 1e-7})
        for column, (own, limits, terms) in enumerate(self.definitions, start=self.count):
            for limit in limits if own is None else (own, *limits):
                self.program.row([column, limit], [1.0, -1.0], upper=0.0)
            if terms:
                sources = [column, *(one for one, _ in terms)]
                self.program.row(sources, [1.0, *(-share for _, share in terms)], upper=0.0)
        self.program.row(binary, np.ones(self.count), upper=float(budget))

    def suggest(self, chosen: Sequence[int]) -> None:
        """A first solution."""
        values = [0.0] * (self.count + len(self.definitions))
        for one in chosen:
            values[one] = 1.0
        for column, (own, limits, terms) in enumerate(self.definitions, start=self.count):
            bounds = [values[limit] for limit in limits]
            if own is not None:
                bounds.append(values[own])
            if terms:
                bounds.append(sum(share * values[source] for source, share in terms))
            values[column] = min(bounds)
        self.program.suggest(np.array(values))

    def solve(self, time_limit: float) -> Solved:
        """Run for at most about so many seconds."""
        solved = self.program.solve(time_limit)
        bound, values = min(1.0, solved.bound), solved.values
        if values is None:
            return Solved(None, bound, solved.status)
        return Solved(frozenset(np.flatnonzero(values[: self.count] > 0.5).tolist()), bound, solved.status)

    def _column(
        self, own: int | None, limits: tuple[int, ...] = (), terms: tuple[tuple[int, float], ...] = ()
    ) -> int:
        """A column of at most its partition's x, each of `limits`, and the weighted sum `terms`."""
        self.definitions.append((own, limits, terms))
        return self.count + len(self.definitions) - 1

    def _output(self, one: int, feed: int | None) -> int:
        """What is left of a partition's output, where the sources above it give `feed`."""
        if (one, feed) not in self._outputs:
            self._outputs[one, feed] = self._make_output(one, feed)
        return self._outputs[one, feed]

    def _make_output(self, one: int, feed: int | None) -> int:
        if (
            one in self.model.needs
        ):  # nothing but what has needs, too, reads from it, so `feed` is all there is
            return self._column(one, (self._whole(self.model.needs[one]),))
        origins = [self.links.feeds[number].origin for number in self.links.above[one]]
        if not origins:
            return one if feed is WHOLE else self._column(one, (feed,))
        if len(origins) == 1:
            return self._column(one, (self._input(origins[0], feed),))
        if not self.model.correlated[one]:
            shares = zip(origins, self.links.shares[one], strict=True)
            terms = tuple((self._input(origin, feed), share) for origin, share in shares if share > 0)
            return self._column(one, (), terms)
        # The largest part comes first: the others are copied.
        origins.sort(key=lambda origin: -self._ancestors[origin])
        if self.count + len(self.definitions) > self.most:
            self.relaxed = True
            return self._column(one, tuple(self._input(origin, feed) for origin in origins))
        through = self._input(origins[0], feed)
        for origin in origins[1:]:
            through = self._input(origin, through)
        return self._column(one, (through,))

    def _whole(self, needs: int) -> int:
        """Whether all of these, bits of the model, have a replica."""
        if needs not in self._wholes:
            self._wholes[needs] = self._column(None, tuple(sorted(self.model.members(needs))))
        return self._wholes[needs]

    def _input(self, origin: int, feed: int | None) -> int:
        """What of a stream reaches its targets."""
        if (origin, feed) not in self._inputs:
            sources = [(one, share) for one, share in self.links.origins[origin] if share > 0]
            terms = tuple((self._output(one, feed), share) for one, share in sources)
            alone = len(terms) == 1
            self._inputs[origin, feed] = terms[0][0] if alone else self._column(None, (), terms)
        return self._inputs[origin, feed]

    def _count_ancestors(self) -> list[int]:
        """How many partitions there are above the targets of each origin."""
        above: list[int] = []
        for one in range(self.count):
            found = self.model.bits[one]
            for feed in self.links.above[one]:
                for source, _ in self.links.origins[self.links.feeds[feed].origin]:
                    found |= above[source]
            above.append(found)
        counts = []
        for sources in self.links.origins:
            found = 0
            for source, _ in sources:
                found |= above[source]
            counts.append(found.bit_count())
        return counts
