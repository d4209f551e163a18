"""Which queries are to be parked while more input comes in than can be worked off, and which may return.

The time that an epoch takes under a placement (`epoch_time`) shrinks with every partition that stops. Load
(`domain.capacity.saturation`) is taken to shrink in the same proportion. What a job takes whatever runs in
it makes that too hopeful for a park and too cautious for a return, so both are looked at again with the load
that is measured afterwards.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Mapping
from itertools import count

from domain.planning.deployment import partition_levels
from domain.planning.epoch_time import EpochTime, Unit
from domain.planning.placement import NodeSpace, effective_costs, natural_key
from domain.topology import Topology

PARK_TO = 0.8
"""Load that what goes on may have: what has come in meanwhile is to be worked off, too."""
RETURN_TO = 0.9
"""Load up to which parked queries return where the usual one is not known. It is higher than `PARK_TO`,
because a topology may have run with such a load for months."""
NOTHING = 1e-12
ROUNDING = 1.0 + 1e-6


class _Kept:
    """The queries that go on, and how long an epoch takes with them. Partitions that no query needs always
    go on."""

    def __init__(
        self,
        topology: Topology,
        assignment: Mapping[str, str],
        nodes: Collection[NodeSpace],
        costs: Mapping[str, float],
        queries: Collection[str],
    ) -> None:
        self.queries = set(queries)
        self._topology = topology
        spaces = sorted(nodes, key=lambda one: natural_key(one.name))
        index = {node.name: position for position, node in enumerate(spaces)}
        self._node = {p: index[node] for p, node in assignment.items() if node in index}
        levels = partition_levels(topology)
        full = effective_costs(partitions=self._node, nodes=spaces, costs=costs)
        self._units = {p: Unit((p,), {levels[p]: full[p]}) for p in self._node}
        self._time = EpochTime(spaces, levels=1 + max(levels.values(), default=0), max_utilisation=1.0)
        self._needed: Counter[str] = Counter()
        for query in self.queries:
            self._needed.update(topology.query_partitions[query])
        for partition in self._node:
            if self._needed[partition] or not topology.sharing[partition]:
                self._put(partition)

    def time(self) -> float:
        return self._time.cost()

    def saved_without(self, query: str) -> float:
        """By how much an epoch gets shorter without this query."""
        before = self.time()
        self.remove(query)
        saved = before - self.time()
        self.add(query)
        return saved

    def cost_of(self, query: str) -> float:
        """By how much an epoch gets longer with this query."""
        before = self.time()
        self.add(query)
        cost = self.time() - before
        self.remove(query)
        return cost

    def remove(self, query: str) -> None:
        self.queries.discard(query)
        for partition in self._topology.query_partitions[query]:
            self._needed[partition] -= 1
            if not self._needed[partition] and partition in self._node:
                self._time.take(self._units[partition], self._node[partition])

    def add(self, query: str) -> None:
        self.queries.add(query)
        for partition in self._topology.query_partitions[query]:
            if not self._needed[partition] and partition in self._node:
                self._put(partition)
            self._needed[partition] += 1

    def _put(self, partition: str) -> None:
        self._time.put(self._units[partition], self._node[partition], movable=False)


def queries_to_park(
    topology: Topology,
    *,
    assignment: Mapping[str, str],
    nodes: Collection[NodeSpace],
    costs: Mapping[str, float],
    priorities: Mapping[str, int],
    load: float,
    parked: Collection[str] = (),
) -> list[str]:
    """The queries, besides those parked, that are to stop for the load to fall to `PARK_TO`: those with the
    least priority for the time that they take. At least one query goes on.

    assignment: what runs, and where. costs: CPU percent of each partition. load: seconds of work for each
    second of input, as measured with this assignment.
    """
    going = [query for query in topology.queries if query not in parked]
    kept = _Kept(topology, assignment, nodes, costs, going)
    whole = kept.time()
    if load <= PARK_TO or whole <= NOTHING:
        return []
    limit = whole * PARK_TO / load
    stopped: list[str] = []
    heap: list[tuple[float, int, str]] = []
    order = count()
    for query in sorted(going, key=natural_key, reverse=True):
        heapq.heappush(heap, (_density(priorities, query, kept.saved_without(query)), next(order), query))
    while heap and len(kept.queries) > 1 and kept.time() > limit:
        _, tie, query = heapq.heappop(heap)
        density = _density(priorities, query, kept.saved_without(query))
        if heap and density > heap[0][0] * ROUNDING:  # what stopped before has changed what this one saves
            heapq.heappush(heap, (density, tie, query))
            continue
        kept.remove(query)
        stopped.append(query)
    for query in sorted(stopped, key=lambda one: (-priorities.get(one, 0), natural_key(one))):
        kept.add(query)
        if kept.time() > limit:
            kept.remove(query)
    parks = sorted({*stopped} - kept.queries, key=natural_key)
    stops = topology.exclusive_partitions({*parked, *parks}) - topology.exclusive_partitions(parked)
    return parks if stops & assignment.keys() else []


def load_after_moves(
    topology: Topology,
    moves: Mapping[str, str],
    *,
    assignment: Mapping[str, str],
    nodes: Collection[NodeSpace],
    costs: Mapping[str, float],
    load: float,
) -> float:
    """The load after partitions that run have gone to other nodes. moves: partition -> node; the rest as for
    `queries_to_park`."""
    before, after = (
        _Kept(topology, where, nodes, costs, topology.queries).time()
        for where in (assignment, {**assignment, **moves})
    )
    return load * after / before if before > NOTHING else load


def queries_to_return(
    topology: Topology,
    *,
    homes: Mapping[str, str],
    nodes: Collection[NodeSpace],
    costs: Mapping[str, float],
    priorities: Mapping[str, int],
    load: float,
    parked: Collection[str],
    candidates: Collection[str],
    return_to: float = RETURN_TO,
) -> list[str]:
    """Those of the parked `candidates` that may return without the load rising above `return_to`: those with
    most priority for the time that they take, in this order.

    homes: where each partition runs, or ran before it was parked. load: as measured without those parked.
    """
    going = [query for query in topology.queries if query not in parked]
    kept = _Kept(topology, homes, nodes, costs, going)
    now = kept.time()
    if now <= NOTHING:
        return []
    limit = now * return_to / max(load, NOTHING)
    costs_of = {query: kept.cost_of(query) for query in candidates}
    back: list[str] = []
    for query in sorted(candidates, key=lambda q: (-_density(priorities, q, costs_of[q]), natural_key(q))):
        kept.add(query)
        if kept.time() > limit:
            kept.remove(query)
        else:
            back.append(query)
    return back


def _density(priorities: Mapping[str, int], query: str, time: float) -> float:
    return priorities.get(query, 1) / max(time, NOTHING)
