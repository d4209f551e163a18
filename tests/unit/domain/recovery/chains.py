"""A small topology on three nodes, its incident, and what tests read of plans."""

from __future__ import annotations

from domain.recovery.events import (
    DriverReported,
)
from domain.recovery.incident import Deployment, NodeView
from domain.recovery.instructions import (
    CreatePlan,
    Instruction,
)
from domain.recovery.machine import IncidentMachine
from domain.recovery.policy import RecoveryPolicy
from tests.simulation.incident_graphs import branches
from tests.unit.domain.recovery.test_machine import only

COST = 20.0


def machine(*, deterministic: bool = True, topologies: int = 1, **policy: object) -> IncidentMachine:
    """`t0` has 3 chains Source-A-B-Unused of 20 % each and All: chain i on node-(i+1), All on node-1, which
    is then entitled to 80 %. A node has 100 %, so it takes 4 partitions. Checkpoint 10 is complete."""
    deployments = {}
    for index in range(topologies):
        graph = branches(f"t{index}", 3, deterministic=deterministic)
        homes = {p: f"node-{1 + int(p[-2])}" for p in graph.partitions}
        deployments[graph.name] = Deployment(
            topology=graph,
            generation=3,
            assignment=homes,
            latest=10,
            costs=dict.fromkeys(graph.partitions, COST / topologies),
            policy=RecoveryPolicy(**policy),  # type: ignore[arg-type]
        )
    return IncidentMachine(
        number=7,
        deployments=deployments,
        nodes={f"node-{i}": NodeView(name=f"node-{i}", alive=True, usable=True) for i in (1, 2, 3)},
        opened_at=0.0,
    )


def report(
    subject: IncidentMachine,
    state: str,
    *,
    absent: tuple[str, ...] = (),
    behind: tuple[str, ...] = (),
    generation: int = 4,
    topology: str = "t0",
) -> list[Instruction]:
    return subject.handle_stimulus(
        DriverReported(
            at=20.0, topology=topology, generation=generation, state=state, head=30, committed=30,
            checkpoint=0, absent=frozenset(absent), behind=frozenset(behind),
        )
    )  # fmt: skip


def only_proposal(subject: IncidentMachine) -> str:
    (proposed,) = subject.open_proposals().values()
    return proposed.proposal


def plan_of(instructions: list[Instruction]) -> CreatePlan:
    (plan,) = only(instructions, CreatePlan)
    assert isinstance(plan, CreatePlan)
    return plan
