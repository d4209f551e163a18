"""How good tentative outputs would be: information loss, output fidelity and internal completeness.

Source: *Tolerating Correlated Failures in Massively Parallel Stream Processing Engines*, sections III-A
(equations 1 to 4) and VI-B. The paper counts what is lost; here the complement is kept, the share of a
stream that is left: 1 - IL.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from domain.planning import natural_key
from domain.topology import InputSpec, OperatorSpec, Topology

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

Flows = Mapping[str, Mapping[str, Sequence[float]]]
"""By partition and operator that reads from it: tuples per second to each of its targets there, in their
order. Only how they divide counts; a partition without any divides evenly."""

Objective = Literal["weighted", "plain"]
"""What outputs count by: by rate and priority, or by rate alone as in the paper."""

DIGITS = 10
"""Digits to which fidelities are rounded: smaller differences come only from the order of additions."""

CELLS = 500_000
"""How many numbers are computed at once, which bounds the memory for many plans of a large topology."""


@dataclass(frozen=True, slots=True)
class Stream:
    """One input of an operator. weights: what each source partition is of what a target reads from this
    stream, laid out as `left` needs it, of a `full` stream [m], or [m, n] where it is measured which source
    feeds which target; rates: tuples per second that each target reads from it."""

    source: slice
    partitioning: str
    weights: Floats
    rates: Floats

    def left(self, kept: Floats) -> Floats:
        """Share of this stream that reaches each target [B, n], of what is left of its sources [B, m]
        (equation 1); [B, 1] where it is the same for all."""
        if self.partitioning == "one_to_one":
            return kept
        if self.partitioning == "split":
            return np.repeat(kept, len(self.rates) // kept.shape[1], axis=1)
        if self.partitioning == "merge":
            return (kept.reshape(len(kept), *self.weights.shape) * self.weights).sum(axis=2)
        if self.weights.ndim == 2:
            return kept @ self.weights
        return kept if len(self.weights) == 1 else (kept @ self.weights)[:, None]

    def whole(self, kept: Flags) -> Flags:
        """Whether all sources of each target are kept [B, n], of whether each is [B, m]; [B, 1] where it is
        the same for all."""
        if self.partitioning == "one_to_one":
            return kept
        if self.partitioning == "split":
            return np.repeat(kept, len(self.rates) // kept.shape[1], axis=1)
        if self.partitioning == "merge":
            groups: Flags = np.logical_and.reduce(kept.reshape(len(kept), *self.weights.shape), axis=2)
            return groups
        found: Flags = np.logical_and.reduce(kept, axis=1, keepdims=True)
        return found


@dataclass(frozen=True, slots=True)
class Step:
    """An operator. shares: by stream, what it is of all that each partition reads [streams, n]; reads: tuples
    per second that each partition reads, of a source what it produces."""

    own: slice
    correlated: bool
    streams: tuple[Stream, ...]
    shares: Floats
    reads: Floats


class FidelityModel:
    """The model of one topology with the rates of its partitions' output streams, in tuples per second.

    A partition divides its output among the partitions of each operator that it feeds as `flows` say, and
    evenly where they say nothing. Where nothing flows at all, everything counts alike. priorities: of
    queries, where they are not those of the specification. `weights` are what the outputs count by, the sum
    of them 1, and `plain_weights` the same without priorities. What is in a cycle or below one gives nothing
    unless all that it needs runs. Raises ValueError for rates that cannot be.
    """

    def __init__(
        self,
        topology: Topology,
        rates: Mapping[str, float],
        objective: Objective = "weighted",
        priorities: Mapping[str, int] | None = None,
        flows: Flows | None = None,
    ) -> None:
        self.topology, self.objective = topology, objective
        self.flows: Flows = flows or {}
        self.partitions: tuple[str, ...] = tuple(topology.partitions)
        self.index = {partition: index for index, partition in enumerate(self.partitions)}
        _require(self.index, rates)
        self.rates: Floats = np.array([rates[partition] for partition in self.partitions], dtype=np.float64)
        self.spans: dict[str, slice] = {}
        start = 0
        for operator in topology.operators:
            self.spans[operator.name] = slice(start, start + operator.parallelism)
            start += operator.parallelism
        self.steps = tuple(self._step(operator) for operator in topology.operators)
        self.outputs: tuple[int, ...] = tuple(self.index[query] for query in topology.queries)
        given = self.rates[list(self.outputs)]
        self.plain_weights: Floats = _shares(given)
        self.weights: Floats = self.plain_weights
        if objective == "weighted":
            known = priorities or {}
            values = [known.get(query, topology.priority(query)) for query in topology.queries]
            self.weights = _shares((given if given.any() else np.ones_like(given)) * np.array(values))

    def _step(self, operator: OperatorSpec) -> Step:
        own = self.spans[operator.name]
        streams = tuple(self._stream(stream, operator) for stream in operator.inputs if not stream.feedback)
        if not streams:
            return Step(own, False, (), np.zeros((0, operator.parallelism)), self.rates[own])
        if len(streams) == 1:
            (only,) = streams
            return Step(own, operator.correlated, streams, np.ones((1, operator.parallelism)), only.rates)
        rates = np.stack([stream.rates for stream in streams])
        return Step(own, operator.correlated, streams, _shares(rates), rates.sum(axis=0))

    def _stream(self, stream: InputSpec, target: OperatorSpec) -> Stream:
        source, n = self.spans[stream.source], target.parallelism
        rates = self.rates[source]
        match stream.partitioning:
            case "one_to_one":
                return Stream(source, "one_to_one", np.ones(n), rates)
            case "split":
                share = n // len(rates)
                divided = self._divided(stream, target, share)
                reads = np.repeat(rates / share, share) if divided is None else rates[:, None] * divided
                return Stream(source, "split", np.ones(n), reads.ravel())
            case "merge":
                groups = rates.reshape(n, -1)
                return Stream(source, "merge", _shares(groups.T).T, groups.sum(axis=1))
            case _:
                divided = self._divided(stream, target, n)
                if divided is None or len(rates) == 1 == n:
                    return Stream(source, "full", _shares(rates), np.full(n, rates.sum() / n))
                pairs = rates[:, None] * divided
                return Stream(source, "full", _shares(pairs), pairs.sum(axis=0))

    def _divided(self, stream: InputSpec, target: OperatorSpec, count: int) -> Floats | None:
        """Shares of each source partition's output that go to its `count` targets [m, count]; None where
        nothing is known of any. Raises ValueError for flows that cannot be."""
        span = self.spans[stream.source]
        found = np.zeros((span.stop - span.start, count))
        for row, partition in zip(found, self.partitions[span], strict=True):
            flow = self.flows.get(partition, {}).get(target.name)
            if flow is None:
                continue
            if len(flow) != count or not all(math.isfinite(rate) and rate >= 0 for rate in flow):
                raise ValueError(f"{partition} cannot give {list(flow)!r} to {count} of {target.name}")
            row[:] = flow
        if not found.any():
            return None
        return _shares(found.T).T

    def flags(self, plans: Iterable[Iterable[int]]) -> Flags:
        """Sets of partition indices as rows."""
        rows = [list(plan) for plan in plans]
        flags = np.zeros((len(rows), len(self.partitions)), dtype=bool)
        for row, plan in zip(flags, rows, strict=True):
            row[plan] = True
        return flags

    @cached_property
    def bits(self) -> tuple[int, ...]:
        """The bit of each partition in sets that are whole numbers: the first by name has the highest, so of
        two sets of the same size the larger number is the first by name."""
        highest = len(self.partitions) - 1
        return tuple(1 << (highest - rank) for rank in self.ranks)

    def flags_of(self, sets: Sequence[int]) -> Flags:
        """Sets of `bits` as rows."""
        count = len(self.partitions)
        width = (count + 7) // 8
        octets = np.frombuffer(b"".join(one.to_bytes(width, "big") for one in sets), dtype=np.uint8)
        ranked = np.unpackbits(octets.reshape(len(sets), width), axis=1)[:, 8 * width - count :]
        flags: Flags = ranked[:, list(self.ranks)].astype(bool)
        return flags

    def members(self, one: int) -> frozenset[int]:
        """The partition indices in a set of `bits`."""
        return frozenset(np.flatnonzero(self.flags_of([one])[0]).tolist())

    @cached_property
    def needs(self) -> dict[int, int]:
        """Of each partition in a cycle or below one what it cannot run without, as a set of `bits`; of those
        in a cycle the same for all, themselves included."""
        topology, found = self.topology, dict[str, int]()
        needs: dict[int, int] = {}
        for group in topology.groups if topology.components else ():
            above = reduce(or_, (found[source] for source in topology.above(group)), 0)
            own = reduce(or_, (self.bits[self.index[partition]] for partition in group), above)
            found.update(dict.fromkeys(group, own))
            if group[0] in topology.cyclic:
                inside = topology.operator_of(group[0]).name in topology.component_of
                needs.update(dict.fromkeys((self.index[one] for one in group), own if inside else above))
        return needs

    @cached_property
    def correlated(self) -> tuple[bool, ...]:
        """Whether each partition joins its inputs."""
        return tuple(
            operator.correlated for operator in self.topology.operators for _ in range(operator.parallelism)
        )

    def left(self, alive: Flags) -> Floats:
        """What is left of each partition's output [B, P] when exactly the partitions `alive` run: 1 - IL of
        equations 1 to 3; nothing of a failed one's."""
        return self._left(alive, joins=True)

    def fidelity(self, alive: Flags) -> Floats:
        """Output fidelity by row, 0 to 1: what the outputs still give, by `weights`. With what is replicated
        as `alive` that is the worst case of a correlated failure: everything that has no replica fails."""
        return np.clip(self._kept(alive, self.weights), 0.0, 1.0).round(DIGITS)

    def exact_fidelity(self, alive: Flags) -> Floats:
        """The same to `DIGITS` significant digits: a single tree of a large topology may keep less of the
        output than a rounded fidelity shows."""
        found = self._kept(alive, self.weights)
        with np.errstate(divide="ignore"):
            unit = np.where(found > 0, 10.0 ** (np.floor(np.log10(found)) + 1 - DIGITS), 1.0)
        rounded: Floats = np.round(found / unit) * unit
        return rounded

    def plain_fidelity(self, alive: Flags) -> Floats:
        """The same by rates alone, which is equation 4 of the paper."""
        return np.clip(self._kept(alive, self.plain_weights), 0.0, 1.0).round(DIGITS)

    def _kept(self, alive: Flags, weights: Floats) -> Floats:
        found = np.empty(len(alive))
        rows = max(1, CELLS // len(self.partitions))
        for start in range(0, len(alive), rows):
            some = slice(start, start + rows)
            found[some] = self.left(alive[some])[:, self.outputs] @ weights
        return found

    def completeness(self, alive: Flags) -> Floats:
        """Internal completeness by row, 0 to 1: of all the tuples that all partitions read together, those
        that are still read. A join counts like a union here; the paper compares fidelity with it."""
        left = self._left(alive, joins=False)
        weights = _shares(self._reads)
        read: Floats = left @ weights
        return np.clip(read, 0.0, 1.0).round(DIGITS)

    @cached_property
    def _reads(self) -> Floats:
        return np.concatenate([step.reads for step in self.steps])

    def _left(self, alive: Flags, *, joins: bool) -> Floats:
        left = alive.astype(np.float64, order="F")  # operators are columns
        for step in self.steps:
            if not step.streams:
                continue
            arriving = [stream.left(left[:, stream.source]) for stream in step.streams]
            if len(arriving) == 1:
                combined = arriving[0]
            elif step.correlated and joins:
                combined = math.prod(arriving[1:], start=arriving[0])
            else:
                combined = sum(share * one for share, one in zip(step.shares, arriving, strict=True))
            left[:, step.own] *= combined
        if self.topology.components:
            cyclic = [self.index[partition] for partition in self.topology.cyclic]
            left[:, cyclic] = self._whole(alive)[:, cyclic]
        return left

    def _whole(self, alive: Flags) -> Flags:
        """Whether each partition runs with all that it needs, also round cycles."""
        whole = alive.copy()
        for operator, step in zip(self.topology.operators, self.steps, strict=True):
            for stream in step.streams:
                whole[:, step.own] &= stream.whole(whole[:, stream.source])
            cycle = self.topology.component_of.get(operator.name)
            if cycle is not None and operator.name == cycle.operators[-1]:
                spans = [self.spans[name] for name in cycle.operators]
                members = [whole[:, span] for span in spans]
                if not cycle.aligned:
                    members = [np.logical_and.reduce(one, axis=1, keepdims=True) for one in members]
                together = np.logical_and.reduce(members)
                for span in spans:
                    whole[:, span] = together
        return whole

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """Place of each partition in the order of names, `O2[0]` before `O10[0]`."""
        by_name = sorted(range(len(self.partitions)), key=lambda index: natural_key(self.partitions[index]))
        ranks = [0] * len(by_name)
        for rank, index in enumerate(by_name):
            ranks[index] = rank
        return tuple(ranks)

    def order(self, plan: Iterable[int]) -> tuple[int, ...]:
        """The order of sets that are equal otherwise: the smaller one first, then by name."""
        ranks = sorted(self.ranks[index] for index in plan)
        return len(ranks), *ranks


def equal_rates(topology: Topology) -> dict[str, float]:
    """For a topology of which nothing has been measured yet: all partitions have the same output rate."""
    return dict.fromkeys(topology.partitions, 1.0)


def _shares(rates: Floats) -> Floats:
    """Rates as shares of their sum along the first axis; all alike where the sum is nothing."""
    if len(rates) == 1:
        return np.ones_like(rates)
    totals = rates.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares: Floats = np.where(totals > 0, rates / totals, 1.0 / max(1, len(rates)))
    return shares


def _require(known: Mapping[str, int], rates: Mapping[str, float]) -> None:
    missing: Sequence[str] = [partition for partition in known if partition not in rates]
    if missing:
        raise ValueError(f"there is no rate for {missing[0]} and {len(missing) - 1} other partitions")
    for partition, rate in rates.items():
        if partition not in known:
            raise ValueError(f"there is no partition {partition!r}, but a rate for it")
        if not (math.isfinite(rate) and rate >= 0):
            raise ValueError(f"{partition} cannot give {rate!r} tuples per second")
