"""Minimal complete trees: the smallest sets of partitions that can give tentative output by themselves.

Source: Definition 1 of *Tolerating Correlated Failures in Massively Parallel Stream Processing Engines*. Sets
are whole numbers whose bits are partition indices.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from domain.fidelity import FidelityModel
from domain.topology import partition_id


class TooLargeError(ValueError):
    """An exact answer would take too long; the message says what to ask instead."""


def complete_trees(model: FidelityModel, *, largest: int, most: int) -> list[int]:
    """All minimal complete trees of at most `largest` partitions, the smallest first, then by name.

    A partition with independent inputs needs one of the partitions it reads from, one that joins needs one of
    each stream, one in a cycle or below it all that there are. Raises `TooLargeError` where there are more
    than `most` for any partition.
    """
    trees: list[frozenset[int]] = []
    topology = model.topology
    for operator in topology.operators:
        streams = [stream for stream in operator.inputs if not stream.feedback]
        sources: list[list[list[int]]] = [[[] for _ in streams] for _ in range(operator.parallelism)]
        for position, stream in enumerate(streams):
            for index in range(topology.by_name[stream.source].parallelism):
                source = model.index[partition_id(stream.source, index)]
                for target in topology.targets(stream, operator, index):
                    sources[target][position].append(source)
        for index in range(operator.parallelism):
            one = model.index[partition_id(operator.name, index)]
            own = 1 << one
            if one in model.needs:
                whole = sum(1 << other for other in model.members(model.needs[one] | model.bits[one]))
                trees.append(frozenset({whole} if whole.bit_count() <= largest else ()))
                continue
            above = [{tree for one in stream for tree in trees[one]} for stream in sources[index]]
            trees.append(_joined(own, above, operator.correlated, largest, most))
    found = {tree for output in model.outputs for tree in trees[output]}
    if len(found) > most:
        raise _too_many(most)
    return sorted(found, key=lambda tree: model.order(members(tree)))


def _joined(own: int, above: list[set[int]], correlated: bool, largest: int, most: int) -> frozenset[int]:
    """The trees that end in one partition, from those that end above it, by stream."""
    if not above:
        return frozenset({own})
    found: set[int] = set()
    choices = product(*above) if correlated else ((tree,) for stream in above for tree in stream)
    for steps, choice in enumerate(choices):
        if steps > 8 * most:
            raise _too_many(most)
        tree = own
        for one in choice:
            tree |= one
        if tree.bit_count() <= largest:
            found.add(tree)
        if len(found) > most:
            raise _too_many(most)
    return frozenset(found)


def _too_many(most: int) -> TooLargeError:
    return TooLargeError(
        f"more than {most} sets of partitions could give output by themselves; ask structure_aware instead, "
        "or for a smaller budget"
    )


def members(tree: int) -> Iterator[int]:
    """The indices in a set."""
    while tree:
        lowest = tree & -tree
        yield lowest.bit_length() - 1
        tree ^= lowest
