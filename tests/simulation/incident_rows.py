"""The data of the incident world: nodes, runs of topologies, plans, and the rows of a store."""

from __future__ import annotations

from dataclasses import dataclass, field

from domain.recovery import facts
from domain.recovery.incident import ENDED_STATES, Deployment, Request, State
from domain.recovery.policy import RecoveryPolicy
from domain.topology import Topology

CURRENT = ("planned", "published", "applied")


@dataclass(slots=True)
class Plan:
    topology: str
    generation: int
    assignment: dict[str, str]
    state: str
    wave: int = 0
    checkpoint: int = 0
    incident: int | None = None
    restore: tuple[str, ...] = ()
    rollback: bool = False
    method: str = "blocking"
    kind: str = "deploy"
    applied_at: float | None = None
    caught_up_at: float | None = None


@dataclass(slots=True)
class Driver:
    """running: partition -> node under the applied plan. behind: run and have not caught up."""

    generation: int
    running: dict[str, str]
    epoch: int = 20
    starting: bool = False
    fresh: bool = False
    behind: set[str] = field(default_factory=set)
    applied: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Run:
    graph: Topology
    generation: int
    driver: Driver
    policy: RecoveryPolicy
    costs: dict[str, float]
    priorities: dict[str, int] = field(default_factory=dict)
    latest: int = 10
    latest_generation: int = 1
    in_force: Plan | None = None
    # Whether sources have much state as well.
    heavy: bool = False
    generations_seen: list[int] = field(default_factory=list)


class Rows:
    """nodes: name -> whether it is really alive. recorded_lost: nodes that detection has recorded as lost."""

    def __init__(self) -> None:
        self.now = 0.0
        self.nodes: dict[str, bool] = {}
        self.capacity: dict[str, float] = {}
        self.replay_reserve = 1.0
        self.parked: dict[str, frozenset[str]] = {}
        self.recorded_lost: set[str] = set()
        self.draining: set[str] = set()
        # Nodes that wait for a failure.
        self.standbys: set[str] = set()
        self.runs: dict[str, Run] = {}
        self.plans: list[Plan] = []
        self.entries: dict[int, list[str]] = {}
        self.requests: dict[int, dict[str, Request]] = {}
        self.incidents: dict[int, State] = {}
        self.involved: dict[int, set[str]] = {}
        self.costs: dict[int, dict[str, dict[str, float]]] = {}
        self.paused: set[int] = set()
        self.proposed: dict[str, facts.Proposed] = {}
        self.approved: set[str] = set()
        # What incidents moved last to make room, and those of which no wave has used it yet.
        self.rooms_made: dict[int, facts.RoomMade] = {}
        self.rooms_open: set[int] = set()
        self.counts: dict[str, int] = {}

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def newest(self, name: str) -> Plan:
        return max(self.made(name), key=lambda plan: plan.generation)

    def made(self, name: str) -> list[Plan]:
        """Without plans of an aborted incident that were given up before they got into ZooKeeper."""
        published = self.runs[name].generations_seen
        return [
            plan
            for plan in self.plans
            if plan.topology == name
            and not (
                plan.state == "superseded"
                and plan.incident is not None
                and self.incidents[plan.incident] in ENDED_STATES
                and plan.generation not in published
            )
        ]

    def placed(self, name: str) -> dict[str, str]:
        """Partition -> node, as the coordinator knows it."""
        return self.newest(name).assignment

    def open_incident(self) -> int | None:
        return next((n for n, state in self.incidents.items() if state not in ENDED_STATES), None)

    def deployment(self, name: str, number: int) -> Deployment:
        run = self.runs[name]
        others = sorted(
            (p for p in self.made(name) if p.incident != number),
            key=lambda plan: plan.generation,
        )
        homes: dict[str, str] = {}
        for plan in others:
            homes.update({p: node for p, node in plan.assignment.items() if p in run.graph.partitions})
        return Deployment(
            topology=run.graph,
            generation=run.generation,
            assignment=dict(self.placed(name)),
            costs=dict(run.costs),
            # In some topologies sources keep next to nothing, and may move while others replay.
            state={p: 10**6 * bool(run.graph.upstream(p) or run.heavy) for p in run.graph.partitions},
            latest=run.latest,
            priorities=dict(run.priorities),
            policy=run.policy,
            homes=homes,
            before=others[-1].generation,
        )
