"""Branches: partitions that lack an input go on beside their exact state, so that queries give tentative
output until what was lost is restored. Pure.

Source: *Tolerating Correlated Failures in Massively Parallel Stream Processing Engines*, sections II and III:
partitions that are left process what still arrives, and how good their output is follows from the rates.
There the state itself becomes tentative, and is corrected later. Here it stays as it is: a branch begins with
the state of its partition at the epoch at which the input was lost, runs with those furthest ahead, and takes
inputs that do not arrive for empty ones. It ends when its partition has caught up by exact replay.

A branch computes no epoch again. Those that have passed when it begins, or while it could not run, it lacks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from domain.execution.flows import Flows
from domain.execution.lanes import Lane
from domain.execution.reach import Link, Links, links_of
from domain.fidelity import FidelityModel, equal_rates
from domain.messages import TentativeStatus
from domain.topology import Topology
from domain.topology.copies import branch_of, partition_of


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the partitions are: `reach` and `absent` as in `domain.execution.reach`, `restore` those that
    have to be put back before they run, `homes` their nodes, `progress` the last epoch of each."""

    reach: Mapping[str, int]
    absent: Collection[str]
    restore: Collection[str]
    homes: Mapping[str, str]
    progress: Mapping[str, int]


@dataclass(slots=True)
class Branches:
    """By the name of the branch: `homes`, its node; `progress`, the last epoch it applied; `origins`, the
    epoch of its partition's state that it begins with, until it has. fidelity: of partitions, the share of
    their output that is left, 0 to 1. since: of queries, the first epoch that is tentative. absent: branches
    whose node cannot be reached."""

    topology: Topology
    homes: dict[str, str] = field(default_factory=dict)
    progress: dict[str, int] = field(default_factory=dict)
    origins: dict[str, int] = field(default_factory=dict)
    fidelity: dict[str, float] = field(default_factory=dict)
    since: dict[str, int] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)

    @property
    def operators(self) -> frozenset[str]:
        """Those of which any partition has a branch."""
        return frozenset(partition_of(name).partition("[")[0] for name in self.homes)

    def recorded(self) -> dict[str, tuple[str, int]]:
        """What the epoch log says of them: partition -> node and epoch, of those that have begun."""
        return {
            partition_of(branch): (node, self.progress[branch])
            for branch, node in self.homes.items()
            if branch not in self.origins
        }

    def status(self) -> dict[str, TentativeStatus]:
        """By query, for operators; of those that have given tentative output since they lack an input."""
        return {
            query: TentativeStatus(
                since=since, epoch=self.progress[branch_of(query)], fidelity=self.fidelity.get(query, 0.0)
            )
            for query, since in sorted(self.since.items())
        }

    # ---- which there are -------------------------------------------------------------------------

    def look(self, wanted: Mapping[str, float], standing: Standing, flows: Flows) -> bool:
        """Decide again which branches there are; True if tasks are to be placed for it. wanted: operators
        whose queries may give tentative output -> the fidelity that it must be above. flows: what partitions
        give to which, as far as that is known."""
        chosen = self._chosen(wanted, standing, flows)
        gone = [one for one in self.homes if partition_of(one) not in chosen]
        for branch in gone:
            self._drop(branch)
        new = [partition for partition in chosen if branch_of(partition) not in self.homes]
        for partition in new:
            branch = branch_of(partition)
            self.homes[branch] = standing.homes[partition]
            self.progress[branch] = self.origins[branch] = standing.progress[partition]
        return bool(new)

    def _drop(self, branch: str) -> None:
        del self.homes[branch], self.progress[branch]
        self.origins.pop(branch, None)
        self.since.pop(partition_of(branch), None)
        self.absent.discard(branch)

    def drop(self, partitions: Iterable[str]) -> None:
        """These have no branch any more."""
        for branch in map(branch_of, partitions):
            if branch in self.homes:
                self._drop(branch)

    def _chosen(self, wanted: Mapping[str, float], standing: Standing, flows: Flows) -> set[str]:
        """The partitions that are to have a branch: those that lack an input because of a failure, and are on
        the way to a query whose output is good enough."""
        able = self._able(standing) if wanted else set()
        if not able:
            self.fidelity = {}
            return set()
        front = max(standing.reach.values(), default=0)
        alive = able.union(partition for partition, epoch in standing.reach.items() if epoch == front)
        left = self._left(alive, flows)
        self.fidelity = {partition: left[partition] for partition in able}
        given = {
            query
            for query in self.topology.queries
            if query in able and left[query] > wanted.get(query.partition("[")[0], 1.0)
        }
        return self._needed(given, {partition for partition in able if left[partition] > 0.0})

    def _able(self, standing: Standing) -> set[str]:
        """Partitions that could go on tentatively. One that lacks only epochs waits for its replay, but a
        branch that there is goes on until then."""
        front = max(standing.reach.values(), default=0)
        found = set[str]()
        for partition, node in standing.homes.items():
            if partition in standing.absent or partition in standing.restore:
                continue
            reach, branch = standing.reach.get(partition), branch_of(partition)
            begun = self.homes.get(branch)
            if begun is not None and self.progress[branch] > front:
                continue  # those that were furthest ahead are lost, too: it begins anew
            if begun in (None, node) if reach is None else reach < front and begun == node:
                found.add(partition)
        return found

    def _left(self, alive: Collection[str], flows: Flows) -> dict[str, float]:
        """Share of each partition's output that is left when exactly these run (equations 1 to 3)."""
        rates = flows.rates()
        known = all(partition in rates for partition in self.topology.partitions)
        counted = rates if known else equal_rates(self.topology)
        model = FidelityModel(self.topology, counted, "plain", flows=flows.pairs())
        left = model.left(model.flags([[model.index[partition] for partition in alive]]))[0]
        return {partition: round(float(left[index]), 6) for partition, index in model.index.items()}

    def _needed(self, queries: Collection[str], able: Collection[str]) -> set[str]:
        """These queries, and what they read of the partitions that are able to go on."""
        links, found = links_of(self.topology), set(queries)
        for operator, partitions in reversed(links.partitions.items()):
            chosen = [index for index, partition in enumerate(partitions) if partition in found]
            for link in links.inputs[operator] if chosen else ():
                for index in chosen if link.ranges is not None else chosen[:1]:
                    found.update(name for name in read(links, link, index) if name in able)
        return found

    # ---- jobs ------------------------------------------------------------------------------------

    def beside(self, lane: Lane | None, graph: Topology, front: int, held: Collection[str]) -> Lane | None:
        """The lane of the present with the branches: each runs the epochs after `front`, with those inputs
        that run to its end. graph: the view with branches; held: branches to leave alone now."""
        if lane is None or not self.homes or lane.last <= front:
            return lane
        giving = {
            name for name, start in lane.starts.items() if start <= front and lane.end(name) == lane.last
        }
        running: dict[str, int] = {}
        links = links_of(graph)
        for operator, names in links.partitions.items():
            for index, name in enumerate(names):
                if name not in self.homes or name in held or name in self.absent:
                    continue
                if partition_of(name) in giving or self.progress[name] > front:
                    continue  # it has caught up in this very lane, or is of no use any more
                if any(not giving.isdisjoint(read(links, link, index)) for link in links.inputs[operator]):
                    giving.add(name)
                    running[name] = front
        return replace(lane, starts={**lane.starts, **running}) if running else lane

    def take(self, lane: Lane | None, results: Mapping[str, int]) -> None:
        """A job has ended. results: the last epoch that each has applied."""
        for branch, epoch in results.items():
            if branch not in self.homes:
                continue
            first = lane.starts[branch] + 1 if lane is not None else epoch
            self.origins.pop(branch, None)
            self.progress[branch] = max(self.progress[branch], epoch)
            query = partition_of(branch)
            if query in self.topology.queries:
                self.since.setdefault(query, first)


def read(links: Links, link: Link, index: int) -> Sequence[str]:
    """What partition `index` of an operator reads through one of its inputs."""
    names = links.partitions[link.other]
    if link.ranges is None:
        return names
    return names[link.ranges[index].start : link.ranges[index].stop]
