"""Every incident ends once resources suffice, whatever happens meanwhile and in whatever order."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.domain.recovery.incident import ENDED_STATES
from tests.simulation.incident_world import World

ACTIONS = (
    "kill", "kill", "detect", "return", "arrive", "arrive", "reuse_name", "request_start", "request_fail",
    "time", "publish", "step", "step", "deliver", "deliver", "deliver", "drive", "drive", "restart_driver",
    "checkpoint", "recover_now", "redeploy",
)  # fmt: skip

schedules = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 10_000)), max_size=50)


def check(world: World) -> None:
    """What must hold at any moment."""
    for name, run in world.runs.items():
        assert run.generations_seen == sorted(set(run.generations_seen)), "generation in force went back"
        assert run.driver.applied == sorted(set(run.driver.applied)), "a generation was applied twice"
        generations = [plan.generation for plan in world.plans if plan.topology == name]
        assert len(generations) == len(set(generations)), "two plans of one generation"
        current = [p for p in world.plans if p.topology == name and p.state in ("planned", "published")]
        assert len(current) <= 1, "two plans under way for one topology"


@settings(max_examples=300, deadline=None)
@given(schedules)
def test_every_incident_ends_and_everything_runs_again(schedule: list[tuple[str, int]]) -> None:
    world = World()
    for action, choice in schedule:
        world.act(action, choice)
        check(world)
    world.settle()
    check(world)
    assert all(state in ENDED_STATES for state in world.incidents.values()), world.incidents
    for name, run in world.runs.items():
        assert not world.absent(name), f"{name} still has absent partitions"
        assert run.in_force is not None
        assert set(run.in_force.assignment) == set(run.graph.partitions)


@settings(max_examples=100, deadline=None)
@given(schedules)
def test_repeating_a_step_changes_nothing(schedule: list[tuple[str, int]]) -> None:
    world = World()
    for action, choice in schedule:
        world.act(action, choice)
    world.act("step", 0)
    plans = [(p.topology, p.generation, p.state) for p in world.plans]
    requests = {key: r.state for rs in world.requests.values() for key, r in rs.items()}
    for _ in range(3):
        world.do_step(None)  # type: ignore[arg-type]
    assert plans == [(p.topology, p.generation, p.state) for p in world.plans]
    assert requests == {key: r.state for rs in world.requests.values() for key, r in rs.items()}
