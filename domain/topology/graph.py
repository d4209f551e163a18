"""The graph of a validated topology: partitions, the channels between them, and its queries."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from graphlib import TopologicalSorter

import msgspec

from domain.topology.cycles import Component, components_of
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


def is_partition(name: str) -> bool:
    """Whether this could be the name of a partition, and not that of a copy."""
    return _PARTITION.match(name) is not None


def partition_directory(partition: str) -> str:
    """`O3[2]` to `O3-2`, which every file system and znode path takes."""
    operator, index = split_partition(partition)
    return f"{operator}-{index}"


def directory_partition(directory: str) -> str:
    """`O3-2` to `O3[2]`, back from `partition_directory`."""
    operator, _, index = directory.rpartition("-")
    return f"{operator}[{index}]"


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
        """Operators in topological order (feedback streams ignored). Those of a cycle follow one another, so
        that everything they read from outside of it is before them all."""
        if not self.components:
            return sorted(self.spec.operators, key=lambda operator: self.levels[operator.name])
        group = {name: one.operators[0] for one in self.components for name in one.operators}
        inputs: dict[str, list[str]] = {}
        for operator in self.spec.operators:
            mine = group.get(operator.name, operator.name)
            above = (group.get(stream.source, stream.source) for stream in operator.inputs)
            inputs.setdefault(mine, []).extend(name for name in above if name != mine)
        depth = levels_of(inputs)

        def place(operator: OperatorSpec) -> tuple[int, str, int]:
            mine = group.get(operator.name, "")
            return depth[mine or operator.name], mine, self.levels[operator.name]

        return sorted(self.spec.operators, key=place)

    @cached_property
    def components(self) -> tuple[Component, ...]:
        """The strongly connected components with a cycle, which feedback streams close."""
        if not any(stream.feedback for operator in self.spec.operators for stream in operator.inputs):
            return ()
        return components_of(self.spec, self.levels)

    @cached_property
    def component_of(self) -> dict[str, Component]:
        """By the name of an operator, of those in a cycle."""
        return {name: one for one in self.components for name in one.operators}

    @cached_property
    def cyclic(self) -> frozenset[str]:
        """The partitions in a cycle or below one."""
        found: set[str] = set()
        for group in self.groups if self.components else ():
            operator, _ = split_partition(group[0])
            if operator in self.component_of or not found.isdisjoint(self.above(group)):
                found.update(group)
        return frozenset(found)

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

    @property
    def replays(self) -> bool:
        """Whether partitions that were lost replay alone what they have missed."""
        return self.deterministic and not self.spec.bounded

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
        """The upstream neighbouring partitions, also by feedback streams."""
        return self._edges[0][partition]

    def downstream(self, partition: str) -> list[str]:
        """The downstream neighbouring partitions, also by feedback streams."""
        return self._edges[1][partition]

    def before(self, partition: str) -> list[str]:
        """The upstream neighbouring partitions whose rows it needs in the same epoch."""
        if partition not in self._returning:
            return self.upstream(partition)
        return [source for source in self.upstream(partition) if source not in self._returning[partition]]

    @cached_property
    def _returning(self) -> dict[str, set[str]]:
        """For each partition that reads from feedback streams those that send on them."""
        found: dict[str, set[str]] = {}
        for source, targets in self.fed_back.items():
            for target in targets:
                found.setdefault(target, set()).add(source)
        return found

    @cached_property
    def fed_back(self) -> dict[str, list[str]]:
        """For each partition that sends on feedback streams those that it sends to."""
        found: dict[str, list[str]] = {}
        for target in self.operators:
            for stream in target.inputs if any(one.feedback for one in target.inputs) else ():
                for index in range(self.by_name[stream.source].parallelism) if stream.feedback else ():
                    reached = (partition_id(target.name, i) for i in self.targets(stream, target, index))
                    found.setdefault(partition_id(stream.source, index), []).extend(reached)
        return found

    @cached_property
    def query_partitions(self) -> dict[str, frozenset[str]]:
        """For each query the partitions it consists of (incremental recovery, Definition 1)."""
        ancestors: dict[str, frozenset[str]] = {}
        for group in self.groups:
            above = [ancestors[source] for source in self.above(group)]
            ancestors.update(dict.fromkeys(group, frozenset(group).union(*above)))
        return {query: ancestors[query] for query in self.queries}

    @cached_property
    def groups(self) -> list[tuple[str, ...]]:
        """Partitions of which each needs each other, in topological order: of a cycle all, or those of one
        index where its streams are one_to_one; elsewhere each partition alone."""
        found: list[tuple[str, ...]] = []
        for operator in self.operators:
            component = self.component_of.get(operator.name)
            if component is None:
                found.extend((partition_id(operator.name, index),) for index in range(operator.parallelism))
            elif operator.name == component.operators[0]:
                found.extend(self._groups_of(component))
        return found

    def _groups_of(self, component: Component) -> list[tuple[str, ...]]:
        width = {name: self.by_name[name].parallelism for name in component.operators}
        if component.aligned:
            count = width[component.operators[0]]
            return [tuple(partition_id(name, index) for name in width) for index in range(count)]
        return [tuple(partition_id(name, index) for name in width for index in range(width[name]))]

    def above(self, group: Sequence[str]) -> set[str]:
        """What a group of partitions reads from outside of it."""
        return {source for member in group for source in self.upstream(member)}.difference(group)

    @cached_property
    def in_or_below_cycles(self) -> frozenset[str]:
        """The operators whose partitions are `cyclic`."""
        return frozenset(split_partition(partition)[0] for partition in self.cyclic)

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
        for group in self.groups:  # in topological order
            needed = self.sharing[group[0]]
            if (needed and needed <= mine) or (not needed and not only.isdisjoint(self.above(group))):
                only.update(group)
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
