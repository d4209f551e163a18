"""What a simulation is given: systems, failures, arrivals, and how to recover; checked before it runs.

Times are seconds of simulated time. Costs, loads and capacities are CPU percent of one core, as in planning.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

from domain.availability import Policy
from domain.planning import MAX_UTILISATION, PLANNERS, UniformDelay
from domain.recovery.tentative import TentativeOutput
from domain.topology import FieldProblem, Topology

MethodName = Literal["blocking", "incremental"]
Rollback = Literal["ancestors", "global"]

PAPER_ARRIVALS = UniformDelay(120.0, 360.0)
"""Incremental recovery, section 7.2: a node asked of the cloud was there after two to six minutes."""


class ScenarioError(ValueError):
    """The scenario cannot be simulated; `problems` names every fault and where it is."""

    def __init__(self, problems: list[FieldProblem]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedNode:
    """A node before the failure. `standby` nodes take no primaries."""

    name: str
    capacity: float = 100.0
    rack: str = ""
    usable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedTopology:
    """A topology as it runs before the failure.

    assignment: node of every partition. costs: CPU percent of the measured ones. priorities: overrides of
    those in the specification, by query. latency: end-to-end seconds of its queries in peace. rollback:
    its own policy, where it is not the scenario's. checkpoint_age: that of its newest, where it is not the
    scenario's. replicas: node of each replica that has caught up; it takes over at once when its partition's
    node dies and its own does not. tentative: None where no query gives tentative output.
    """

    topology: Topology
    assignment: Mapping[str, str]
    costs: Mapping[str, float] = field(default_factory=dict)
    priorities: Mapping[str, int] = field(default_factory=dict)
    latency: float = 1.0
    rollback: Rollback | None = None
    checkpoint_age: float | None = None
    replicas: Mapping[str, str] = field(default_factory=dict)
    tentative: TentativeOutput | None = None

    def taken_over(self, dead: Collection[str]) -> dict[str, str]:
        """The partitions that go on elsewhere when these nodes die, and where."""
        return takeovers(self.assignment, self.replicas, dead)


def takeovers(
    assignment: Mapping[str, str], replicas: Mapping[str, str], dead: Collection[str]
) -> dict[str, str]:
    """Of the partitions on these nodes, those whose replica is on none of them: partition -> its node."""
    return {
        partition: replicas[partition]
        for partition, node in assignment.items()
        if node in dead and replicas.get(partition, node) not in dead
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Nodes, and all nodes of racks, that die at a moment. Those that came since are called `replacement-1`,
    `replacement-2`, in the order of their coming."""

    at: float = 0.0
    nodes: tuple[str, ...] = ()
    racks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """What passes between things at the level of control.

    detection: from a death to its being known. publication: from a plan's decision to its being in
    ZooKeeper. adoption: until the driver has executors on the plan's nodes and applies it. restoration:
    loading the checkpoint. checkpoint: taking a global one. look: from a fact to the decision upon it;
    what becomes known in the meantime is decided upon together.
    """

    detection: float = 5.0
    publication: float = 0.2
    adoption: float = 3.0
    restoration: float = 2.0
    checkpoint: float = 2.0
    look: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One recovery to simulate.

    arrivals: seconds from the first failure at which nodes come, whatever request they answer; or the
        distribution of the time from a request to its node, drawn by request and `seed`.
    arrival_capacity: of nodes in an explicit list that answer no request; default the largest lost one's.
    method, planner, rollback: how the coordinator recovers.
    replay_speed: how many seconds of input a restored partition works through in one second (above 1).
    checkpoint_age: how old the newest complete checkpoint is when the first node dies.
    policy: when a query counts as available. sample_every: spacing of the latency curve.
    limit: simulated seconds after which a recovery that has not ended is given up.
    """

    topologies: tuple[SimulatedTopology, ...]
    nodes: tuple[SimulatedNode, ...]
    failures: tuple[Failure, ...]
    arrivals: tuple[float, ...] | UniformDelay = PAPER_ARRIVALS
    arrival_capacity: float | None = None
    method: MethodName = "incremental"
    planner: str = "best_density"
    rollback: Rollback = "ancestors"
    seed: int = 0
    replay_speed: float = 4.0
    checkpoint_age: float = 5.0
    checkpoint_interval: float = 10.0
    delays: Delays = field(default_factory=Delays)
    policy: Policy = field(default_factory=Policy)
    max_utilisation: float = MAX_UTILISATION
    replay_reserve: float = 1.0
    sample_every: float = 2.0
    limit: float = 3_600.0

    def __post_init__(self) -> None:
        problems = list(_problems(self))
        if problems:
            raise ScenarioError(problems)

    @property
    def first_failure(self) -> float:
        return min(failure.at for failure in self.failures)

    def age_of(self, one: SimulatedTopology) -> float:
        """How old the newest complete checkpoint of a topology is when the first node dies."""
        return self.checkpoint_age if one.checkpoint_age is None else one.checkpoint_age

    def victims(self, failure: Failure) -> list[str]:
        """Names of the nodes that die in this failure, of those there are before the first."""
        chosen = set(failure.nodes)
        return [node.name for node in self.nodes if node.name in chosen or node.rack in failure.racks]


def _problems(scenario: Scenario) -> Iterator[FieldProblem]:
    yield from _system_problems(scenario)
    yield from _failure_problems(scenario)
    yield from _arrival_problems(scenario)
    if scenario.method not in ("blocking", "incremental"):
        yield FieldProblem("method", f"{scenario.method!r} is neither `blocking` nor `incremental`")
    if scenario.planner not in PLANNERS:
        known = ", ".join(sorted(PLANNERS))
        yield FieldProblem("planner", f"there is no planner {scenario.planner!r}; known: {known}")
    if scenario.rollback not in ("ancestors", "global"):
        yield FieldProblem("rollback", f"{scenario.rollback!r} is neither `ancestors` nor `global`")
    if not scenario.replay_speed > 1.0 or math.isinf(scenario.replay_speed):
        yield FieldProblem(
            "replay_speed", f"{scenario.replay_speed:g} would never catch up; it must be above 1"
        )
    if not 0.0 < scenario.max_utilisation <= 1.0:
        yield FieldProblem(
            "max_utilisation", f"{scenario.max_utilisation:g} is not a share above 0, at most 1"
        )
    if not _finite(scenario.replay_reserve, 1.0):
        yield FieldProblem(
            "replay_reserve", f"{scenario.replay_reserve:g} is not a multiple of costs, at least 1"
        )
    for name, least in (("checkpoint_age", 0.0), ("checkpoint_interval", 0.1), ("sample_every", 0.01),
                        ("limit", 1.0)):  # fmt: skip
        if not _finite(getattr(scenario, name), least):
            yield FieldProblem(
                name, f"{getattr(scenario, name):g} is not a number of seconds of at least {least:g}"
            )
    for delay in fields(Delays):
        if not _finite(getattr(scenario.delays, delay.name)):
            yield FieldProblem(f"delays.{delay.name}", "must be a number of seconds, at least 0")


def _system_problems(scenario: Scenario) -> Iterator[FieldProblem]:
    nodes = {node.name for node in scenario.nodes}
    if len(nodes) != len(scenario.nodes):
        yield FieldProblem("nodes", "two nodes have the same name")
    for index, node in enumerate(scenario.nodes):
        if not _finite(node.capacity) or node.capacity <= 0:
            yield FieldProblem(f"nodes[{index}].capacity", f"{node.name} has a capacity of {node.capacity:g}")
    if not scenario.topologies:
        yield FieldProblem("topologies", "name at least one topology")
    names = [one.topology.name for one in scenario.topologies]
    if len(set(names)) != len(names):
        yield FieldProblem("topologies", "two topologies have the same name")
    for index, one in enumerate(scenario.topologies):
        path = f"topologies[{index}]"
        partitions, queries = set(one.topology.partitions), set(one.topology.queries)
        missing = partitions.difference(one.assignment)
        if missing:
            yield FieldProblem(f"{path}.assignment", f"no node for {_some(missing)}")
        for what, placed in (("assignment", one.assignment), ("replicas", one.replicas)):
            unknown = set(placed.values()).difference(nodes)
            if unknown:
                yield FieldProblem(f"{path}.{what}", f"there is no node {_some(unknown)}")
        for what, given, known in (
            ("assignment", one.assignment, partitions),
            ("costs", one.costs, partitions),
            ("replicas", one.replicas, partitions),
            ("priorities", one.priorities, queries),
        ):
            unknown = set(given).difference(known)
            if unknown:
                yield FieldProblem(f"{path}.{what}", f"{one.topology.name} has no {_some(unknown)}")
        if any(not _finite(cost) for cost in one.costs.values()):
            yield FieldProblem(f"{path}.costs", "costs are CPU percent, at least 0")
        if any(not 1 <= priority <= 10 for priority in one.priorities.values()):
            yield FieldProblem(f"{path}.priorities", "priorities run from 1 to 10")
        if not _finite(one.checkpoint_age or 0.0):
            yield FieldProblem(f"{path}.checkpoint_age", "must be a number of seconds, at least 0")
        if not _finite(one.latency, 1e-3):
            yield FieldProblem(
                f"{path}.latency", f"{one.latency:g} is not a latency of at least a millisecond"
            )


def _failure_problems(scenario: Scenario) -> Iterator[FieldProblem]:
    nodes = {node.name for node in scenario.nodes}
    racks = {node.rack for node in scenario.nodes if node.rack}
    if not scenario.failures:
        yield FieldProblem("failures", "name nodes or racks that fail")
    for index, failure in enumerate(scenario.failures):
        path = f"failures[{index}]"
        if not _finite(failure.at):
            yield FieldProblem(f"{path}.at", f"{failure.at:g} is not a moment; count seconds from 0")
        if not failure.nodes and not failure.racks:
            yield FieldProblem(path, "names neither nodes nor racks")
        unknown = {n for n in failure.nodes if n not in nodes and not _replacement(n)}
        if unknown:
            yield FieldProblem(f"{path}.nodes", f"there is no node {_some(unknown)}")
        unknown = set(failure.racks).difference(racks)
        if unknown:
            yield FieldProblem(f"{path}.racks", f"there is no rack {_some(unknown)}")


def _arrival_problems(scenario: Scenario) -> Iterator[FieldProblem]:
    if isinstance(scenario.arrivals, UniformDelay):
        if not _finite(scenario.arrivals.longest):
            yield FieldProblem("arrivals", "delays must be finite")
    elif any(not _finite(at) for at in scenario.arrivals):
        yield FieldProblem("arrivals", "arrivals are seconds after the first failure, at least 0")
    if scenario.arrival_capacity is not None and not _finite(scenario.arrival_capacity, 1e-6):
        yield FieldProblem("arrival_capacity", "a node that comes must have a capacity above 0")


def _replacement(name: str) -> bool:
    return name.startswith("replacement-") and name[12:].isdigit()


def _finite(value: float, least: float = 0.0) -> bool:
    return math.isfinite(value) and value >= least


def _some(names: set[str]) -> str:
    shown = sorted(names)[:5]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
