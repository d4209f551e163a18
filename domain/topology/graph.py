"""The graph of a validated topology: partitions, the channels between them, and its queries."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from graphlib import TopologicalSorter

import msgspec

from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec
from domain.values import LONGEST_CYCLE

_PARTITION = re.compile(r"^([A-Za-z][A-Za-z0-9_]{0,63})\[(\d+)\]$")


def partition_id(operator: str, index: int) -> str:
    """`O3[2]`: partition 2 of operator O3."""
    return f"{operator}[{index}]"


def split_partition(partition: str) -> tuple[str, int]:
    """`O3[2]` to `("O3", 2)`; raises ValueError for anything else."""
    match = _PARTITION.match(partition)
    if match is None:
        raise ValueError(f"{partition!r} is not a partition; expected operator[index], such as O3[2]")
    return match[1], int(match[2])


def partition_directory(partition: str) -> str:
    """`O3[2]` to `O3-2`, which every file system and znode path takes."""
    operator, index = split_partition(partition)
    return f"{operator}-{index}"


def levels_of(inputs: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Longest distance of each operator from a source; `inputs` names those it reads from, without cycles."""
    levels: dict[str, int] = {}
    for name in TopologicalSorter(inputs).static_order():
        levels[name] = 1 + max((levels[source] for source in inputs[name]), default=-1)
    return levels


class Topology:
    """An immutable view of a specification. Lists are in topological order, ties in the order of the file."""

    def __init__(self, spec: TopologySpec) -> None:
        self.spec = spec
        self.name = spec.name
        self.by_name: dict[str, OperatorSpec] = {operator.name: operator for operator in spec.operators}

    @cached_property
    def operators(self) -> list[OperatorSpec]:
        """Operators in topological order (feedback streams ignored)."""
        return sorted(self.spec.operators, key=lambda operator: self.levels[operator.name])

    @cached_property
    def levels(self) -> dict[str, int]:
        """Longest distance of each operator from a source, in streams."""
        return levels_of(
            {
                operator.name: [stream.source for stream in operator.inputs if not stream.feedback]
                for operator in self.spec.operators
            }
        )

    @cached_property
    def sources(self) -> list[OperatorSpec]:
        return [operator for operator in self.operators if not operator.inputs]

    @cached_property
    def outputs(self) -> list[OperatorSpec]:
        return [operator for operator in self.operators if operator.output]

    @cached_property
    def partitions(self) -> list[str]:
        return [partition_id(o.name, index) for o in self.operators for index in range(o.parallelism)]

    @cached_property
    def queries(self) -> list[str]:
        """Output partitions; each is the id of its query."""
        return [partition_id(o.name, index) for o in self.outputs for index in range(o.parallelism)]

    @cached_property
    def deterministic(self) -> bool:
        return all(operator.repeatable for operator in self.spec.operators)

    @cached_property
    def window_cycle(self) -> float:
        """See `domain.values.Cycle`."""
        sizes = [
            operator.params.get("slide_s", operator.params.get("size_s")) for operator in self.spec.operators
        ]
        longest = max((float(size) for size in sizes if isinstance(size, int | float)), default=0.0)
        return min(longest, LONGEST_CYCLE)

    def operator_of(self, partition: str) -> OperatorSpec:
        return self.by_name[split_partition(partition)[0]]

    def priority(self, query: str) -> int:
        return self.operator_of(query).priority

    def targets(self, stream: InputSpec, target: OperatorSpec, source_index: int) -> range:
        """Indices of the partitions of `target` that partition `source_index` of the source feeds."""
        m, n = self.by_name[stream.source].parallelism, target.parallelism
        if stream.partitioning == "one_to_one":
            return range(source_index, source_index + 1)
        if stream.partitioning == "split":
            share = n // m
            return range(source_index * share, (source_index + 1) * share)
        if stream.partitioning == "merge":
            return range(source_index * n // m, source_index * n // m + 1)
        return range(n)

    @cached_property
    def _edges(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        upstream: dict[str, list[str]] = {partition: [] for partition in self.partitions}
        downstream: dict[str, list[str]] = {partition: [] for partition in self.partitions}
        for target in self.operators:
            for stream in target.inputs:
                for source_index in range(self.by_name[stream.source].parallelism):
                    source = partition_id(stream.source, source_index)
                    for index in self.targets(stream, target, source_index):
                        upstream[partition_id(target.name, index)].append(source)
                        downstream[source].append(partition_id(target.name, index))
        return upstream, downstream

    def upstream(self, partition: str) -> list[str]:
        """The upstream neighbouring partitions."""
        return self._edges[0][partition]

    def downstream(self, partition: str) -> list[str]:
        """The downstream neighbouring partitions."""
        return self._edges[1][partition]

    @cached_property
    def query_partitions(self) -> dict[str, frozenset[str]]:
        """For each query the partitions it consists of (incremental recovery, Definition 1)."""
        ancestors: dict[str, frozenset[str]] = {}
        for partition in self.partitions:
            above = [ancestors[source] for source in self.upstream(partition) if source in ancestors]
            ancestors[partition] = frozenset({partition}).union(*above)
        return {query: ancestors[query] for query in self.queries}

    @cached_property
    def sharing(self) -> dict[str, frozenset[str]]:
        """For each partition the queries that need it."""
        shared: defaultdict[str, set[str]] = defaultdict(set)
        for query, members in self.query_partitions.items():
            for partition in members:
                shared[partition].add(query)
        return {partition: frozenset(shared[partition]) for partition in self.partitions}

    def idle_partitions(self, failed: Collection[str]) -> frozenset[str]:
        """Of the partitions that have not failed, those that no query needs which is whole: what they give is
        of no use now."""
        lost = frozenset(failed)
        needed: set[str] = set()
        for partitions in self.query_partitions.values():
            if partitions.isdisjoint(lost):
                needed |= partitions
        return frozenset(self.partitions) - lost - needed

    def exclusive_partitions(self, queries: Collection[str]) -> frozenset[str]:
        """The partitions that only these queries need, and those that no query needs and that get input from
        them: none of these runs without these queries."""
        mine = frozenset(queries)
        only: set[str] = set()
        for partition in self.partitions:  # in topological order
            needed = self.sharing[partition]
            if (needed and needed <= mine) or (not needed and only.intersection(self.upstream(partition))):
                only.add(partition)
        return frozenset(only)

    def failed_queries(self, failed: Iterable[str]) -> list[str]:
        """Queries with at least one failed partition."""
        lost = set(failed)
        return [query for query in self.queries if lost & self.query_partitions[query]]

    def to_data(self) -> dict[str, object]:
        """The specification as plain data, as it is stored and sent."""
        data = msgspec.to_builtins(self.spec)
        assert isinstance(data, dict)  # noqa: S101 - tells mypy what msgspec does with a struct
        return data
