"""A scenario that cannot be simulated is refused, with everything that is wrong and where."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from domain.planning import UniformDelay
from domain.simulation.agenda import Agenda
from domain.simulation.provider import Coming, Provider
from domain.simulation.scenario import Delays, Failure, ScenarioError
from tests.unit.domain.simulation.scenarios import drawn_scenario

BASE = drawn_scenario(0)
ONE = BASE.topologies[0]


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({"failures": ()}, "failures", "name nodes or racks"),
        ({"failures": (Failure(),)}, "failures[0]", "neither nodes nor racks"),
        ({"failures": (Failure(nodes=("missing",)),)}, "failures[0].nodes", "no node missing"),
        ({"failures": (Failure(racks=("attic",)),)}, "failures[0].racks", "no rack attic"),
        ({"failures": (Failure(at=-1.0, nodes=("node-1",)),)}, "failures[0].at", "not a moment"),
        ({"arrivals": (10.0, -1.0)}, "arrivals", "at least 0"),
        ({"arrivals": (float("nan"),)}, "arrivals", "at least 0"),
        ({"arrivals": UniformDelay(1.0, float("inf"))}, "arrivals", "finite"),
        ({"arrival_capacity": 0.0}, "arrival_capacity", "above 0"),
        ({"planner": "magic"}, "planner", "best_density"),
        ({"method": "hope"}, "method", "neither"),
        ({"rollback": "some"}, "rollback", "neither"),
        ({"replay_speed": 1.0}, "replay_speed", "never catch up"),
        ({"max_utilisation": 1.5}, "max_utilisation", "share"),
        ({"sample_every": 0.0}, "sample_every", "at least 0.01"),
        ({"delays": Delays(detection=-1.0)}, "delays.detection", "at least 0"),
        ({"topologies": ()}, "topologies", "at least one"),
        ({"topologies": (ONE, ONE)}, "topologies", "same name"),
        ({"nodes": (*BASE.nodes, BASE.nodes[0])}, "nodes", "same name"),
        ({"nodes": (replace(BASE.nodes[0], capacity=0.0), *BASE.nodes[1:])}, "nodes[0].capacity", "0"),
        ({"topologies": (replace(ONE, assignment={}),)}, "topologies[0].assignment", "no node for"),
        (
            {"topologies": (replace(ONE, assignment=dict.fromkeys(ONE.assignment, "moon")),)},
            "topologies[0].assignment",
            "no node moon",
        ),
        ({"topologies": (replace(ONE, costs={"X[0]": 1.0}),)}, "topologies[0].costs", "has no X[0]"),
        ({"topologies": (replace(ONE, costs={"Q0[0]": -1.0}),)}, "topologies[0].costs", "at least 0"),
        ({"topologies": (replace(ONE, priorities={"Q0[0]": 11}),)}, "topologies[0].priorities", "1 to 10"),
        ({"topologies": (replace(ONE, latency=0.0),)}, "topologies[0].latency", "latency"),
    ],
)
def test_faults_are_named(changes: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        replace(BASE, **changes)
    found = {problem.path: problem.message for problem in caught.value.problems}
    assert message in found[path]


def test_all_faults_at_once() -> None:
    with pytest.raises(ScenarioError) as caught:
        replace(BASE, planner="magic", replay_speed=0.5, failures=())
    assert {problem.path for problem in caught.value.problems} == {"planner", "replay_speed", "failures"}


def test_the_agenda_keeps_order_among_equals() -> None:
    agenda, seen = Agenda(0.0), []
    for name in "abc":
        agenda.at(5.0, lambda name=name: seen.append(name))  # type: ignore[misc]
    agenda.at(1.0, lambda: agenda.at(0.0, lambda: seen.append("late")))
    agenda.at(9.0, lambda: seen.append("routine"), routine=True)
    while agenda.pending:
        agenda.step()
    assert seen == ["late", "a", "b", "c"]
    assert agenda.now == 5.0


def test_a_list_of_arrivals_serves_requests_in_their_order() -> None:
    scenario = replace(BASE, arrivals=(10.0, 20.0, 30.0), arrival_capacity=7.0)
    agenda, came = Agenda(0.0), list[Coming]()
    provider = Provider(scenario, agenda, came.append)
    provider.ask("a", capacity=1.0, rack="r1")
    provider.ask("b", capacity=2.0, rack="r2")
    provider.cancel("a")
    while agenda.pending:
        agenda.step()
    assert [(node.at, node.key, node.capacity) for node in came] == [
        (10.0, "b", 2.0),
        (20.0, "", 7.0),
        (30.0, "", 7.0),
    ]
    assert [node.name for node in came] == ["replacement-1", "replacement-2", "replacement-3"]


def test_drawn_delays_depend_on_the_request_and_the_seed_only() -> None:
    def delay(key: str, seed: int) -> float:
        agenda, came = Agenda(0.0), list[Coming]()
        provider = Provider(replace(BASE, seed=seed), agenda, came.append)
        provider.ask("other", capacity=1.0, rack="")
        provider.ask(key, capacity=1.0, rack="")
        while agenda.pending:
            agenda.step()
        return next(node.at for node in came if node.key == key)

    assert delay("k", 1) == delay("k", 1)
    assert delay("k", 1) != delay("k", 2)
    assert 120.0 <= delay("k", 3) <= 360.0
