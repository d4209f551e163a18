"""What-if with replicas: those that run, none, and those of a replication plan."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from controlplane.events.choices import Channel
from controlplane.incidents.loading import deployments_load, plans_newest
from controlplane.nodes.choices import NodeState
from controlplane.nodes.models import Node
from controlplane.replication import answering as planning
from controlplane.topologies.models import Partition, Topology
from controlplane.topologies.services import topology_create
from controlplane.whatif import answering, replicas
from controlplane.whatif.request import SECONDS
from controlplane.whatif.selectors import scenario_load
from domain.replication import TooLargeError
from domain.simulation.comparison import compare as compared
from tests.unit.controlplane.specs import spec_of
from tests.unit.controlplane.whatif.test_what_if import URL, deployed, errors

ASKED: dict[str, Any] = {"racks": ["rack-a"], "arrivals": [60.0, 90.0], "algorithms": ["best_density"]}
"""Half of all nodes fail: node-1 and node-3."""


@pytest.fixture
def running(topology: Topology) -> Topology:
    Node.objects.update(capacity=1000.0)
    return deployed(topology)


def homes() -> dict[str, str]:
    return deployments_load(plans_newest())["counts"].assignment


def lost() -> list[str]:
    return [partition for partition, node in homes().items() if node in ("node-1", "node-3")]


def have(*partitions: str, node: str = "node-2", caught_up: bool = True) -> None:
    """These have a replica there."""
    shadows = {one: {"node": node, "caught_up": caught_up, "lacks": 0} for one in partitions}
    Topology.objects.update(shadows=shadows)


def answered(client: APIClient, **more: Any) -> dict[str, Any]:
    response = client.post(URL, {**ASKED, **more})
    assert response.status_code == 200, response.json()
    answer: dict[str, Any] = response.json()
    return answer


def outcomes(answer: dict[str, Any]) -> dict[str, str]:
    return {one["query"]: one["outcome"] for one in answer["outlooks"][0]["queries"]}


@pytest.mark.parametrize(
    ("node", "stop", "lack"),
    [
        ("node-2", [], ["O0[0]", "O0[1]", "O1[0]"]),  # a source and its parser
        ("node-3", ["O0[0]"], []),
        ("node-4", ["O0[1]"], ["O0[0]", "O1[0]"]),  # the other source, its parser and a query
    ],
)
def test_without_replicas_a_query_stops_or_lacks_a_part_of_its_input(
    viewer: APIClient, running: Topology, node: str, stop: list[str], lack: list[str]
) -> None:
    answer = answered(viewer, nodes=[node], racks=[])
    (outlook,) = answer["outlooks"]
    assert answer["replicas"] == "running"
    assert (outlook["topology"], outlook["replicas"], outlook["taken_over"]) == ("counts", 0, [])
    assert [one for one, outcome in outcomes(answer).items() if outcome == "stops"] == stop
    assert [one for one, outcome in outcomes(answer).items() if outcome == "lacks_input"] == lack
    assert {f"counts/{one}" for one in (*stop, *lack)} == set(answer["failed_queries"])
    shares = {"stops": 0.0, "lacks_input": 0.5, "goes_on": 1.0}
    assert all(one["fidelity"] == shares[one["outcome"]] for one in outlook["queries"])


def test_a_query_with_tentative_output_goes_on_without_a_part_of_its_input(
    viewer: APIClient, running: Topology
) -> None:
    Topology.objects.update(tentative_output="on", tentative_except=["O1"])
    answer = answered(viewer, nodes=["node-2"], racks=[])
    assert outcomes(answer) == {"O0[0]": "tentative", "O0[1]": "tentative", "O1[0]": "lacks_input"}
    assert {one["fidelity"] for one in answer["outlooks"][0]["queries"]} == {0.5}
    (best,) = answer["algorithms"]
    counted = [(one["available"], one["tentative"]) for one in best["curve"]]
    assert counted[0] == (0, 2), "those that go on from the failure on"
    assert counted[-1] == (3, 0)
    priorities = {"O0[0]": 2, "O0[1]": 3, "O1[0]": 1}
    asked = {"nodes": ["node-2"], "racks": [], "priorities": {"counts": priorities}}
    assert answered(viewer, **asked)["algorithms"][0]["curve"][0]["weighted_tentative"] == round(5 / 6, 6)
    Topology.objects.update(tentative_fidelity=0.5)
    assert set(outcomes(answered(viewer, nodes=["node-2"], racks=[])).values()) == {"lacks_input"}


def test_what_ready_replicas_take_over_goes_on_and_is_not_planned(
    viewer: APIClient, running: Topology
) -> None:
    have(*lost())
    answer = answered(viewer)
    (outlook,) = answer["outlooks"]
    assert outlook["taken_over"] == [
        {"partition": one, "node": "node-2"} for one in sorted(lost(), key=lambda name: name)
    ]
    assert outlook["fidelity"] == 1.0
    assert set(outcomes(answer).values()) == {"goes_on"}
    assert answer["failed_queries"] == []
    (best,) = answer["algorithms"]
    assert best["waves"] == []
    point = {"at": 0.0, "available": 3, "total": 3, "weighted": 1.0}
    assert best["curve"] == [{**point, "tentative": 0, "weighted_tentative": 0.0}]
    without = answered(viewer, replicas="none")
    assert without["failed_queries"]
    assert without["algorithms"][0]["waves"]


def test_only_what_no_replica_takes_over_is_restored(viewer: APIClient, running: Topology) -> None:
    query = next(one for one in lost() if one.startswith("O"))
    have(*(one for one in lost() if one != query))
    answer = answered(viewer)
    assert answer["failed_queries"] == [f"counts/{query}"]
    assert outcomes(answer)[query] == "stops"
    assert [outcome for one, outcome in outcomes(answer).items() if one != query] == ["goes_on"] * 2
    (wave,) = answer["algorithms"][0]["waves"]
    assert (wave["partitions"], wave["queries"]) == (1, [f"counts/{query}"])


@pytest.mark.parametrize(
    ("node", "caught_up", "state"),
    [
        ("node-2", False, NodeState.ALIVE),  # catching up
        ("node-3", True, NodeState.ALIVE),  # fails too
        ("node-9", True, NodeState.ALIVE),  # no such node
        ("node-5", True, NodeState.LOST),  # lost already
    ],
)
def test_replicas_that_cannot_take_over_do_not_count(
    viewer: APIClient, running: Topology, node: str, caught_up: bool, state: str
) -> None:
    Node.objects.create(name="node-5", address="127.0.1.5", slots=1, rack="rack-b", state=state)
    before = answered(viewer)
    have(*[one for one in lost() if homes()[one] != node], node=node, caught_up=caught_up)
    after = answered(viewer)
    assert after["outlooks"][0]["taken_over"] == []
    assert (after["failed_queries"], outcomes(after)) == (before["failed_queries"], outcomes(before))
    assert after["algorithms"] == before["algorithms"]


def test_a_budget_asks_as_if_its_plan_were_in_place(viewer: APIClient, running: Topology) -> None:
    none, some, everything = (answered(viewer, replicas=budget) for budget in (0, 3, 20_000))
    assert [one["outlooks"][0]["replicas"] for one in (none, some, everything)] == [0, 3, 7]
    assert none["outlooks"] == answered(viewer, replicas="none")["outlooks"]
    assert everything["failed_queries"] == []
    found = [one["outlooks"][0]["fidelity"] for one in (none, some, everything)]
    assert found == sorted(found)
    assert found[-1] == 1.0
    racks = dict(Node.objects.values_list("name", "rack"))
    assert {racks[one["node"]] for one in everything["outlooks"][0]["taken_over"]} == {"rack-b"}
    assert Topology.objects.get().shadows == {}, "nothing is changed"


def test_what_has_no_room_is_named(viewer: APIClient, running: Topology) -> None:
    Node.objects.update(capacity=100.0)
    Partition.objects.update(cpu=0.39)
    (outlook,) = answered(viewer, replicas=7)["outlooks"]
    assert outlook["unplaced"]
    assert outlook["replicas"] + len(outlook["unplaced"]) == 7


def test_topologies_share_the_room(viewer: APIClient, running: Topology) -> None:
    deployed(topology_create(spec=spec_of("more"), actor="ada", reason="test", channel=Channel.CLI))
    Node.objects.update(capacity=100.0)
    Partition.objects.update(cpu=0.15)  # 14 of them: 320 - 14 * 15 is left under the bound
    counts, more = answered(viewer, replicas=7)["outlooks"]
    assert 0 < counts["replicas"] + more["replicas"] <= 7
    assert counts["replicas"] + more["replicas"] + len(counts["unplaced"]) + len(more["unplaced"]) == 14


def test_priorities_of_the_question_count(viewer: APIClient, running: Topology) -> None:
    """A budget for one query goes to that which is worth most."""
    Partition.objects.update(rows_in_rate=10.0, rows_out_rate=10.0)
    plain = answered(viewer, replicas=3)["outlooks"][0]
    turned = answered(viewer, replicas=3, priorities={"counts": {"O1[0]": 10, "O0[0]": 1, "O0[1]": 1}})
    assert plain["fidelity"] != turned["outlooks"][0]["fidelity"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("all", "neither `running`, `none` or the budget"),
        ("", "neither `running`"),
        (-1, "between 0 and 20000"),
        (20_001, "between 0 and 20000"),
        (True, "a whole number"),
        (1.5, "a whole number"),
        (None, "null"),
        ([3], "a whole number"),
        ({"budget": 3}, "a whole number"),
    ],
)
def test_a_bad_choice_is_refused(viewer: APIClient, running: Topology, given: Any, message: str) -> None:
    response = viewer.post(URL, {**ASKED, "replicas": given})
    assert response.status_code == 400, response.json()
    assert message in errors(response)["replicas"]


def test_a_plan_that_cannot_be_computed_is_refused(
    viewer: APIClient, running: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "MOST_PARTITIONS", 3)
    response = viewer.post(URL, {**ASKED, "replicas": 2})
    assert "counts has 7 partitions; plans are computed for up to 3" in errors(response)["replicas"]
    monkeypatch.setattr(replicas, "MOST_PARTITIONS", planning.MOST_PARTITIONS)
    monkeypatch.setattr(answering, "SECONDS", -1.0)
    response = viewer.post(URL, {**ASKED, "replicas": 2})
    assert (response.status_code, "took too long" in errors(response)["replicas"]) == (400, True)


def test_where_the_policy_s_planner_cannot_do_it_the_usual_one_plans(
    viewer: APIClient, running: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it does for replicas that run."""
    usual = answered(viewer, replicas=3)["outlooks"]
    Topology.objects.update(replication_planner="dynamic_programming")

    def refuse(*_: object, **__: object) -> list[int]:
        raise TooLargeError("more sets of partitions than it looks at")

    monkeypatch.setattr("domain.replication.dynamic_programming.complete_trees", refuse)
    assert answered(viewer, replicas=3)["outlooks"] == usual


def test_a_topology_that_may_give_other_rows_has_none(viewer: APIClient, nodes: list[Node]) -> None:
    spec = spec_of()
    spec["operators"][1]["deterministic"] = False
    deployed(topology_create(spec=spec, actor="ada", reason="test", channel=Channel.CLI))
    assert answered(viewer, replicas=7)["outlooks"][0]["replicas"] == 0


def test_a_topology_with_a_bounded_guarantee_has_none(viewer: APIClient, nodes: list[Node]) -> None:
    spec = {**spec_of(), "guarantee": "bounded"}
    deployed(topology_create(spec=spec, actor="ada", reason="test", channel=Channel.CLI))
    assert answered(viewer, replicas=7)["outlooks"][0]["replicas"] == 0


def test_the_number_of_queries_is_constant(viewer: APIClient, running: Topology) -> None:
    have(*lost())
    counts = {}
    for budget in ("running", 3):
        answered(viewer, replicas=budget)
        with CaptureQueriesContext(connection) as few:
            answered(viewer, replicas=budget)
        counts[budget] = len(few)
    for name in ("more", "most"):
        deployed(topology_create(spec=spec_of(name), actor="ada", reason="test", channel=Channel.CLI))
    for budget, before in counts.items():
        with CaptureQueriesContext(connection) as many:
            answer = answered(viewer, replicas=budget)
        assert len(many) == before
        assert [one["topology"] for one in answer["outlooks"]] == ["counts", "more", "most"]


def test_time_for_planning_is_taken_off_that_for_simulating(
    viewer: APIClient, running: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = []

    def compare(*args: Any, seconds: float, **more: Any) -> Any:
        given.append(seconds)
        return compared(*args, seconds=seconds, **more)

    monkeypatch.setattr(answering, "compare", compare)

    def slow(*args: Any, **more: Any) -> Any:
        time.sleep(0.2)
        return scenario_load(*args, **more)

    monkeypatch.setattr(answering, "scenario_load", slow)
    answered(viewer)
    assert given[0] < SECONDS - 0.2
