"""The best an omniscient planner could have done with exactly the nodes that came, when they came. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.recovery.course import WaveRecord
from domain.availability import Sample, area, sample
from domain.planning import Arrival, LookAhead, NodeSpace, recovery_problem
from domain.planning.schedule import Schedule
from domain.recovery.costs import costs_fix
from domain.recovery.incident import Deployment, NodeView
from domain.topology import Topology

SECONDS = 60.0


def counted_costs(
    topology: Topology,
    *,
    homes: Mapping[str, str],
    measured: Mapping[str, float],
    capacities: Mapping[str, float],
    max_utilisation: float,
) -> dict[str, float]:
    """What each partition counts for in an incident, in CPU percent, as the coordinator reckons it.

    homes: partition -> node before the failure. measured, capacities: CPU percent.
    """
    deployment = Deployment(topology=topology, generation=1, assignment=dict(homes), costs=dict(measured))
    views = {
        name: NodeView(name=name, alive=True, usable=True, capacity=capacity, rack="")
        for name, capacity in capacities.items()
    }
    return costs_fix({topology.name: deployment}, views, {}, max_utilisation)[topology.name]


def clairvoyant(
    topology: Topology,
    *,
    failed: Collection[str],
    homes: Mapping[str, str],
    costs: Mapping[str, float],
    survivors: Mapping[str, float],
    arrivals: Sequence[tuple[float, float]],
    priorities: Mapping[str, int],
    max_utilisation: float,
    horizon: float,
) -> Schedule:
    """The schedule of most weighted availability until `horizon`.

    failed: partitions. survivors: node -> capacity. arrivals: (seconds since the failure, capacity).
    Restored queries count from the moment their node has come: no detection, no start, no replay. What runs
    for nothing may stop, and start again elsewhere.
    """
    open_to_choice = {*failed, *topology.idle_partitions(failed)}
    problem = recovery_problem(
        topology,
        failed=open_to_choice,
        costs=costs,
        nodes=[NodeSpace(name=name, capacity=capacity) for name, capacity in survivors.items()],
        assigned={
            partition: node
            for partition, node in homes.items()
            if node in survivors and partition not in open_to_choice
        },
        priorities=priorities,
        max_utilisation=max_utilisation,
    )
    coming = [Arrival(at, capacity * max_utilisation) for at, capacity in arrivals]
    planner = LookAhead(arrivals=coming, horizon=horizon, node_limit=10_000, time_limit=SECONDS)
    return planner.clairvoyant(problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What was there when nodes failed, as an incident counts it. homes: partition -> node. measured: CPU
    percent of partitions. survivors, victims: node -> CPU percent of its quota. share: CPU percent of a node
    that is taken whatever partitions are there."""

    topology: Topology
    homes: Mapping[str, str]
    measured: Mapping[str, float]
    survivors: Mapping[str, float]
    victims: Mapping[str, float]
    share: float
    priorities: Mapping[str, int]
    max_utilisation: float

    def best(self, arrivals: Sequence[float], horizon: float) -> Schedule:
        """The schedule of most weighted availability of the failed queries until `horizon`, if as large a
        node as the largest lost one comes at each of these seconds since the failure."""
        # As a share of a node's capacity is planned: what is taken anyway is not there for partitions.
        taken = self.share / self.max_utilisation
        nodes = {name: quota - taken for name, quota in {**self.survivors, **self.victims}.items()}
        failed = [p for p, node in self.homes.items() if node in self.victims]
        queries = self.topology.failed_queries(failed)
        largest = max(nodes[name] for name in self.victims)
        return clairvoyant(
            self.topology,
            failed=failed,
            homes=self.homes,
            costs=counted_costs(
                self.topology,
                homes=self.homes,
                measured=self.measured,
                capacities=nodes,
                max_utilisation=self.max_utilisation,
            ),
            survivors={name: nodes[name] for name in self.survivors},
            arrivals=[(at, largest) for at in arrivals],
            priorities={query: self.priorities[query] for query in queries},
            max_utilisation=self.max_utilisation,
            horizon=horizon,
        )


def reached_share(curve: Sequence[Sample], schedule: Schedule) -> float:
    """Area under a curve relative to that of the schedule, both from the failure to its horizon."""
    return area(curve, 0.0, schedule.horizon) / schedule.share if schedule.share else 1.0


def planned_curve(
    topology: Topology,
    *,
    failed: Collection[str],
    waves: Sequence[WaveRecord],
    priorities: Mapping[str, int],
) -> list[Sample]:
    """The availability the plans meant: a query counts from the moment the wave that completes it was
    planned. What is between this curve and the measured one is starting, restoring and replaying. Plans that
    were replaced before the driver applied them do not count."""
    left = set(failed)
    queries = topology.failed_queries(left)
    moments = [(0.0, frozenset(left))]
    for wave in waves:
        if wave.applied is None:
            continue
        left.difference_update(wave.restored)
        moments.append((wave.created, frozenset(left)))
    curve: list[Sample] = []
    for at, still in moments:
        down = set(topology.failed_queries(still))
        curve.append(sample(at, {query: query not in down for query in queries}, priorities))
    return curve
