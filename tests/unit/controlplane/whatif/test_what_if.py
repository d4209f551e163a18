"""`POST what-if/`: its answers, its refusals, and that it changes nothing."""

from __future__ import annotations

import hashlib
import json
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.core import serializers
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.events.choices import Channel
from controlplane.incidents.loading import deployments_load, nodes_load, plans_newest
from controlplane.incidents.models import RecoveryPlan
from controlplane.lifecycle.topologies import topology_deploy
from controlplane.nodes.choices import NodeState
from controlplane.nodes.models import Node
from controlplane.topologies.choices import TopologyStatus
from controlplane.topologies.models import Partition, Topology
from controlplane.topologies.services import topology_create
from controlplane.whatif import answering
from tests.unit.controlplane.specs import spec_of

URL = "/api/v1/what-if/"


def errors(response: Any) -> dict[str, str]:
    return {error["path"]: error["message"] for error in response.json()["errors"]}


def deployed(topology: Topology) -> Topology:
    """The topology runs on all nodes."""
    topology_deploy(name=topology.name, actor="ada", reason="test", channel=Channel.CLI)
    Topology.objects.filter(pk=topology.pk).update(status=TopologyStatus.RUNNING)
    return Topology.objects.get(pk=topology.pk)


@pytest.fixture
def running(topology: Topology) -> Topology:
    return deployed(topology)


def fingerprint() -> str:
    """A digest of all rows of the database."""
    rows = [
        serializers.serialize("json", model.objects.order_by("pk"))
        for model in sorted(apps.get_models(), key=lambda model: model._meta.label)
        if model._meta.managed
    ]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def test_a_prediction(viewer: APIClient, running: Topology) -> None:
    before = fingerprint()
    body = {
        "nodes": ["node-1"],
        "racks": ["rack-b"],
        "arrivals": [100, 150.5, 200],
        "algorithms": ["best_density", "operator_centric", "blocking"],
    }
    response = viewer.post(URL, body)
    assert response.status_code == 200, response.json()
    assert fingerprint() == before, "nothing may change"
    answer = response.json()
    assert answer["failed_nodes"] == ["node-1", "node-2", "node-4"]
    assert answer["topologies"] == ["counts"]
    assert answer["queries"] == 3
    assert sorted(answer["failed_queries"]) == ["counts/O0[0]", "counts/O0[1]", "counts/O1[0]"]
    assert [node["at"] for node in answer["arrivals"]] == [100.0, 150.5, 200.0]
    by_name = {one["algorithm"]: one for one in answer["algorithms"]}
    assert list(by_name) == body["algorithms"]
    for one in by_name.values():
        assert one["ended"]
        assert 0 < one["first"] <= one["half"] <= one["all"]
        point = {"at": 0.0, "available": 0, "total": 3, "weighted": 0.0}
        assert one["curve"][0] == {**point, "tentative": 0, "weighted_tentative": 0.0}
        assert one["curve"][-1]["available"] == 3
        assert len(one["curve"]) <= 300
        assert sum(wave["partitions"] for wave in one["waves"]) >= 3
        assert 0 <= one["area"] <= 1
    blocking = by_name["blocking"]
    assert len(blocking["waves"]) == 1
    assert blocking["first"] == blocking["all"]
    assert by_name["best_density"]["first"] <= blocking["first"]
    assert answer["best"]["area"] >= by_name["best_density"]["area"] - 1e-6
    assert by_name["blocking"]["share_of_best"] <= 1


def test_the_topology_s_own_checkpoint_interval_counts(viewer: APIClient, running: Topology) -> None:
    """What was computed since an older checkpoint takes longer to replay."""
    body = {"nodes": ["node-1"], "arrivals": [20], "algorithms": ["blocking"]}
    (often,) = viewer.post(URL, body).json()["algorithms"]
    Topology.objects.update(spec={**running.spec, "checkpoint_interval": 240.0})
    (seldom,) = viewer.post(URL, body).json()["algorithms"]
    assert seldom["all"] - often["all"] > 20


def test_each_topology_replays_what_came_since_its_own_checkpoint(
    viewer: APIClient, running: Topology
) -> None:
    """Also where none was complete for so long that two should have been."""

    def all_back() -> float:
        body = {"nodes": ["node-1"], "arrivals": [20], "algorithms": ["blocking"]}
        (found,) = viewer.post(URL, body).json()["algorithms"]
        return float(found["all"])

    before = all_back()
    other = {**spec_of("seldom"), "checkpoint_interval": 900.0}
    deployed(topology_create(spec=other, actor="ada", reason="test", channel=Channel.CLI))
    Partition.objects.filter(topology__name="seldom").update(node=Node.objects.get(name="node-2"))
    plan = RecoveryPlan.objects.get(topology__name="seldom")
    plan.assignment = dict.fromkeys(plan.assignment, "node-2")
    plan.save()
    assert all_back() == pytest.approx(before, abs=1.0), "nothing of the other one is lost"
    Topology.objects.update(deployed_at=timezone.now() - timedelta(hours=2))
    assert all_back() - before > 2_000


def test_with_a_bounded_guarantee_nothing_replays(viewer: APIClient, running: Topology) -> None:
    body = {"racks": ["rack-a", "rack-b"], "arrivals": [600] * 4, "algorithms": ["best_density"]}
    exact = viewer.post(URL, body).json()
    assert exact["algorithms"][0]["all"] > 700
    Topology.objects.update(spec={**running.spec, "guarantee": "bounded"}, guarantee="bounded")
    bounded = viewer.post(URL, body).json()
    assert bounded["algorithms"][0]["all"] < 620
    assert bounded["best"]["all"] < 620


def test_a_node_has_the_room_that_recovery_plans_with(viewer: APIClient, running: Topology) -> None:
    """What the agent takes leaves less of what may be planned, not of the whole node."""
    Node.objects.update(capacity=100.0, agent_percent=25.0)
    body = {"racks": ["rack-a", "rack-b"], "arrivals": [100], "algorithms": ["best_density"]}
    wave = viewer.post(URL, body).json()["algorithms"][0]["waves"][0]
    node = nodes_load(deployments_load(plans_newest()))["node-1"]
    assert wave["capacity"] == pytest.approx(node.limit(0.8), abs=0.01)


def test_nodes_may_come_late(viewer: APIClient, running: Topology) -> None:
    body = {"racks": ["rack-a", "rack-b"], "arrivals": [20_000] * 4, "algorithms": ["best_density"]}
    (found,) = viewer.post(URL, body).json()["algorithms"]
    assert (found["ended"], found["curve"][-1]["available"]) == (True, 3)


def test_the_same_question_has_the_same_answer(viewer: APIClient, running: Topology) -> None:
    body = {"nodes": ["node-1", "node-2"], "arrivals": "uniform:120:360", "seed": 7}
    first, again = viewer.post(URL, body), viewer.post(URL, body)
    assert first.status_code == 200
    assert first.json() == again.json()
    other = viewer.post(URL, {**body, "seed": 8}).json()
    assert other["arrivals"] != first.json()["arrivals"]


def test_the_provider_s_delay_is_the_default(viewer: APIClient, running: Topology, settings: Any) -> None:
    low, high = settings.RESURGE.replacement_delay.low, settings.RESURGE.replacement_delay.high
    for body in ({"nodes": ["node-1"]}, {"nodes": ["node-1"], "arrivals": "as provider"}):
        answer = viewer.post(URL, body).json()
        # Detection takes five seconds; then the node is asked for.
        assert all(low + 5 <= node["at"] <= high + 7 for node in answer["arrivals"])


def test_priorities_can_be_tried_out(viewer: APIClient, running: Topology) -> None:
    Node.objects.update(capacity=100.0)
    # One output fits on a node.
    Partition.objects.update(cpu=0.05)
    Partition.objects.filter(operator__in=("O0", "O1")).update(cpu=0.5)
    body = {
        "nodes": ["node-1", "node-2", "node-3", "node-4"],
        "arrivals": [100, 200, 300, 400],
        "algorithms": ["best_density"],
    }

    def first_back(**changes: Any) -> list[str]:
        response = viewer.post(URL, {**body, **changes})
        assert response.status_code == 200, response.json()
        waves = response.json()["algorithms"][0]["waves"]
        return next(wave["queries"] for wave in waves if wave["queries"])

    assert first_back() == ["counts/O0[0]"], "of priority 3"
    assert first_back(priorities={"counts": {"O1[0]": 10}}) == ["counts/O1[0]"]
    assert Topology.objects.get().queries.get(partition__operator="O1").priority == 1


@pytest.mark.parametrize(
    ("body", "path", "message"),
    [
        ({}, "nodes", "name the nodes or racks"),
        ({"nodes": []}, "nodes", "name the nodes or racks"),
        ({"nodes": ["node-9"]}, "nodes[0]", "no node 'node-9'"),
        ({"nodes": ["node-1", "node-lost"]}, "nodes[1]", "not alive"),
        ({"racks": ["attic"]}, "racks[0]", "known: rack-a, rack-b"),
        ({"nodes": "node-1"}, "nodes", "list"),
        ({"nodes": [{"a": 1}]}, "nodes.0", "string"),
        ({"nodes": ["node-1"], "arrivals": [10, -1]}, "arrivals[1]", "between 0 and 86400"),
        ({"nodes": ["node-1"], "arrivals": [1e9]}, "arrivals[0]", "between 0 and 86400"),
        ({"nodes": ["node-1"], "arrivals": [10**400]}, "", "arrivals[0]: a whole number beyond 64 bits"),
        ({"nodes": ["node-1"], "arrivals": [True]}, "arrivals", "list of numbers"),
        ({"nodes": ["node-1"], "arrivals": {"low": 1}}, "arrivals", "list of numbers"),
        ({"nodes": ["node-1"], "arrivals": [1.0] * 1001}, "arrivals", "at most 1000"),
        ({"nodes": ["node-1"], "arrivals": "soon"}, "arrivals", "write `uniform:<low>:<high>`"),
        ({"nodes": ["node-1"], "arrivals": "uniform:9:3"}, "arrivals", "from low to high"),
        ({"nodes": ["node-1"], "arrivals": "uniform:-5:3"}, "arrivals", "from low to high"),
        ({"nodes": ["node-1"], "arrivals": "uniform:0:inf"}, "arrivals", "between 0 and 86400"),
        ({"nodes": ["node-1"], "arrivals": "uniform:nan:nan"}, "arrivals", "from low to high"),
        ({"nodes": ["node-1"], "algorithms": ["magic"]}, "algorithms[0]", "known: blocking"),
        ({"nodes": ["node-1"], "algorithms": []}, "algorithms", "at least one"),
        ({"nodes": ["node-1"], "algorithms": ["blocking"] * 2}, "algorithms[1]", "named twice"),
        ({"nodes": ["node-1"], "algorithms": ["blocking"] * 9}, "algorithms", "at most 8"),
        ({"nodes": ["node-1"], "priorities": {"missing": {"O1[0]": 2}}}, "priorities.missing", "no topology"),
        ({"nodes": ["node-1"], "priorities": {"counts": {"X[0]": 2}}}, "priorities.counts.X[0]", "no query"),
        ({"nodes": ["node-1"], "priorities": {"counts": {"O1[0]": 11}}}, "priorities.counts.O1[0]", "10"),
        ({"nodes": ["node-1"], "points": 301}, "points", "300"),
        ({"nodes": ["node-1"], "seed": -1}, "seed", "0"),
        ({"nodes": ["node-1"], "rollback": "half"}, "rollback", "half"),
        ({"nodes": ["node-1"], "replay_speed": 1}, "replay_speed", "1.01"),
        ({"nodes": ["node-1"], "node": "x"}, "node", "no such field"),
    ],
)
def test_a_bad_question_says_what_and_where(
    viewer: APIClient, running: Topology, body: dict[str, Any], path: str, message: str
) -> None:
    Node.objects.create(name="node-lost", address="127.0.1.9", slots=1, state=NodeState.LOST)
    response = viewer.post(URL, body)
    assert response.status_code == 400, response.json()
    assert message in errors(response)[path]


@pytest.mark.parametrize("body", [[], "text", 5, None])
def test_a_body_that_is_no_mapping(viewer: APIClient, running: Topology, body: Any) -> None:
    assert viewer.post(URL, body).status_code == 400


def test_without_a_topology_there_is_nothing_to_simulate(viewer: APIClient, nodes: list[Node]) -> None:
    response = viewer.post(URL, {"nodes": ["node-1"]})
    assert response.status_code == 400
    assert "no topology is deployed" in errors(response)[""]


def test_while_something_is_down_the_question_must_wait(viewer: APIClient, running: Topology) -> None:
    Node.objects.filter(name="node-2").update(state=NodeState.LOST)
    response = viewer.post(URL, {"nodes": ["node-1"]})
    assert response.status_code == 409
    assert "down now" in errors(response)[""]


def test_while_queries_are_parked_the_answer_says_so(viewer: APIClient, running: Topology) -> None:
    plan = RecoveryPlan.objects.get()
    del plan.assignment["O1[0]"]
    plan.save()
    running.queries.filter(partition__operator="O1").update(parked=True)
    response = viewer.post(URL, {"nodes": ["node-1"]})
    assert response.status_code == 409
    assert "1 query of it is parked" in errors(response)[""]


def test_a_question_that_takes_too_long(
    viewer: APIClient, running: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "SECONDS", 0.0)
    response = viewer.post(URL, {"nodes": ["node-1"]})
    assert response.status_code == 400
    assert "fewer" in errors(response)["algorithms"]


def test_only_so_many_questions_at_once(
    viewer: APIClient, running: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "_places", threading.BoundedSemaphore(1))
    assert viewer.post(URL, {"nodes": ["node-1"]}).status_code == 200
    with answering._places:
        response = viewer.post(URL, {"nodes": ["node-1"]})
        assert (response.status_code, response["Retry-After"]) == (503, "5")
        assert "ask again" in errors(response)[""]
    assert viewer.post(URL, {"nodes": ["node-9"]}).status_code == 400
    assert viewer.post(URL, {"nodes": ["node-1"]}).status_code == 200, "the place is free again"


def test_roles(roleless: APIClient, running: Topology) -> None:
    assert roleless.post(URL, {"nodes": ["node-1"]}).status_code == 403
    assert APIClient().post(URL, {"nodes": ["node-1"]}).status_code in (401, 403)


def test_the_number_of_queries_is_constant(viewer: APIClient, running: Topology) -> None:
    body = {"nodes": ["node-1"], "arrivals": [10.0], "algorithms": ["best_density"]}
    assert viewer.post(URL, body).status_code == 200  # the user's groups are known from now on
    with CaptureQueriesContext(connection) as few:
        assert viewer.post(URL, body).status_code == 200
    for name in ("more", "most"):
        spec = spec_of(name, parallelism=4)
        deployed(topology_create(spec=spec, actor="ada", reason="test", channel=Channel.CLI))
    assert Partition.objects.count() > 30
    with CaptureQueriesContext(connection) as many:
        assert viewer.post(URL, body).status_code == 200
    assert len(many) == len(few)
    assert all(query["sql"].startswith(("SELECT", "SAVEPOINT", "RELEASE")) for query in many.captured_queries)
