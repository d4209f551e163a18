"""`GET topologies/{topology}/replication-plan/`: its answers, the rates that it uses, and its refusals."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone
from msgspec import structs
from rest_framework.test import APIClient

from controlplane.checkpoints.models import Checkpoint
from controlplane.events.choices import Channel
from controlplane.events.models import AuditEntry
from controlplane.replication import answering
from controlplane.replication.answering import plans
from controlplane.replication.selectors import measured_load
from controlplane.topologies.graphs import graph_of
from controlplane.topologies.models import Partition, Topology
from controlplane.topologies.rates import EQUAL, MEASURED, flows_of, rates_of
from controlplane.topologies.services import topology_create
from controlplane.topologies.telemetry import topology_metrics_apply
from domain.replication import FidelityModel
from tests.unit.controlplane.specs import epoch_report, spec_of
from tests.unit.controlplane.whatif.test_what_if import deployed, errors, fingerprint

URL = "/api/v1/topologies/counts/replication-plan/"


@pytest.fixture
def running(topology: Topology) -> Topology:
    """Partitions with index 1 give three times as many tuples; windows give none in this epoch."""
    topology = deployed(topology)
    for index, rate in ((0, 100.0), (1, 300.0)):
        Partition.objects.filter(index=index).update(rows_in_rate=rate, rows_out_rate=rate)
    Partition.objects.filter(operator__in=("O0", "O1")).update(rows_out_rate=0.0)
    Partition.objects.filter(operator="O1").update(rows_in_rate=400.0)
    return topology


def test_a_plan_from_measured_rates(viewer: APIClient, running: Topology) -> None:
    before = fingerprint()
    response = viewer.get(URL, {"budget": 3, "objective": "plain"})
    assert response.status_code == 200, response.json()
    assert fingerprint() == before, "nothing may change"
    answer = response.json()
    assert (answer["topology"], answer["planner"]) == ("counts", "structure_aware")
    assert (answer["budget"], answer["total"]) == (3, 7)
    assert answer["rates"] == "even"
    # O1 reads 400 of the 800 tuples/s that all queries read, and three quarters come this way.
    assert [one["partition"] for one in answer["chosen"]] == ["O1[0]", "Parser[1]", "Source[1]"]
    assert answer["fidelity_before"] == 0.0
    assert answer["fidelity_after"] == 0.75 * 0.5
    assert answer["completeness_after"] > 0
    assert answer["checkpoint"] is None
    assert all(one["reason"] and one["rate"] > 0 for one in answer["chosen"])
    outlooks = {one["query"]: (one["tentative"], one["fidelity"]) for one in answer["queries"]}
    assert outlooks == {"O0[0]": (False, 0.0), "O0[1]": (False, 0.0), "O1[0]": (True, 0.75)}


def test_planners_and_budgets(viewer: APIClient, running: Topology) -> None:
    def ask(**question: Any) -> Any:
        return viewer.get(URL, question).json()

    exact = ask(planner="dynamic_programming", budget=4)
    assert exact["proven"]
    for planner in ("structure_aware", "greedy"):
        assert ask(planner=planner, budget=4)["fidelity_after"] <= exact["fidelity_after"]
    assert ask()["budget"] == 2, "a quarter, rounded up"
    assert ask(budget=0)["chosen"] == []
    everything = ask(budget=100_000)
    assert (everything["budget"], everything["fidelity_after"]) == (7, 1.0)


def test_an_optimal_plan_says_that_it_is_proven(viewer: APIClient, running: Topology) -> None:
    optimal = viewer.get(URL, {"planner": "optimal", "budget": 4}).json()
    exact = viewer.get(URL, {"planner": "dynamic_programming", "budget": 4}).json()
    assert optimal["fidelity_after"] == pytest.approx(exact["fidelity_after"], abs=1e-6)
    assert (optimal["proven"], optimal["gap"], optimal["bound"]) == (True, 0.0, optimal["fidelity_after"])
    usual = viewer.get(URL, {"budget": 4}).json()
    assert (usual["proven"], usual["gap"], usual["bound"]) == (False, None, None)


def test_priorities_count_unless_the_plain_fidelity_is_asked_for(
    viewer: APIClient, operator: APIClient, running: Topology
) -> None:
    def ask(**more: str) -> Any:
        plans.forget()
        return viewer.get(URL, {"budget": 3, **more}).json()

    weighted, plain = ask(), ask(objective="plain")
    assert (weighted["objective"], plain["objective"]) == ("weighted", "plain")
    assert weighted["chosen"][0]["partition"] == "O0[1]", "of priority 3, with 300 tuples/s"
    assert plain["chosen"][0]["partition"] == "O1[0]", "of priority 1, with 400 tuples/s"
    assert plain["plain_fidelity_after"] == plain["fidelity_after"] > weighted["plain_fidelity_after"]
    body = {"priority": 9, "reason": "the board looks at it"}
    query = "/api/v1/topologies/counts/queries/O1[0]/"
    assert operator.patch(query, body, format="json").status_code == 200
    assert ask()["chosen"][0]["partition"] == "O1[0]", "priorities are those in force"
    assert ask(objective="plain") == plain


def test_what_is_not_asked_for_is_as_the_policy_says(
    viewer: APIClient, operator: APIClient, running: Topology
) -> None:
    policy = "/api/v1/topologies/counts/policy/"
    body = {"replication_planner": "greedy", "replication_budget": 5, "reason": "two spare nodes"}
    assert operator.patch(policy, body, format="json").status_code == 200
    entry = AuditEntry.objects.get(action="topology.policy")
    assert (entry.reason, entry.after) == (
        "two spare nodes", {"replication_planner": "greedy", "replication_budget": 5}
    )  # fmt: skip
    answer = viewer.get(URL).json()
    assert (answer["planner"], answer["budget"]) == ("greedy", 5)
    answer = viewer.get(URL, {"budget": 3, "planner": "structure_aware"}).json()
    assert (answer["planner"], answer["budget"]) == ("structure_aware", 3)


def test_a_plan_serves_all_requests_with_the_same_question(viewer: APIClient, running: Topology) -> None:
    first = viewer.get(URL, {"budget": 3}).json()
    Partition.objects.update(rows_in_rate=1.0, rows_out_rate=1.0)
    assert viewer.get(URL, {"budget": 3}).json() == first
    assert viewer.get(URL, {"budget": 4}).json()["chosen"] != first["chosen"]
    Topology.objects.filter(pk=running.pk).update(version=2)
    assert viewer.get(URL, {"budget": 3}).json()["chosen"] != first["chosen"]


def test_before_anything_has_run_all_partitions_count_alike(viewer: APIClient, topology: Topology) -> None:
    answer = viewer.get(URL, {"budget": 3}).json()
    assert answer["rates"] == "equal"
    assert "nothing has been measured" in answer["rates_note"]
    assert [one["partition"] for one in answer["chosen"]] == ["O0[0]", "Parser[0]", "Source[0]"]


def test_what_protects_today_is_the_newest_checkpoint_in_storage(
    viewer: APIClient, running: Topology
) -> None:
    now = timezone.now()
    for epoch, state, stored in ((10, "completed", True), (20, "completed", False), (30, "failed", False)):
        Checkpoint.objects.create(
            topology=running, epoch=epoch, state=state, stored=stored, started_at=now, ended_at=now
        )
    assert viewer.get(URL).json()["checkpoint"]["epoch"] == 10


def test_a_plan_from_measured_pairs(viewer: APIClient, running: Topology) -> None:
    """All that Parser[1] gives goes to O0[0], and to O1[0], which has one partition only."""
    flows = {"Parser[0]": {"O0": [0.0, 9.0]}, "Parser[1]": {"O0": [30.0, 0.0]}}
    report = structs.replace(epoch_report(running), partitions={}, flows=flows)
    topology_metrics_apply(report=report, health={})
    answer = viewer.get(URL, {"budget": 3, "objective": "plain"}).json()
    assert answer["rates"] == "measured"
    assert "as the exchange routed it" in answer["rates_note"]
    measured = measured_load("counts")
    model = FidelityModel(measured.graph, measured.rates, flows=measured.flows)
    alive = [model.index[one] for one in ("Source[1]", "Parser[1]", "O0[0]", "O0[1]")]
    left = model.left(model.flags([alive]))[0]
    assert (left[model.index["O0[0]"]], left[model.index["O0[1]"]]) == (1.0, 0.0)


def test_flows_of_another_specification_are_left_out() -> None:
    graph = graph_of(spec_of())
    known = {"Parser[0]": {"O0": [1.0, 2.0], "O1": [3.0], "Gone": [1.0]}, "Old[0]": {"O0": [1.0, 1.0]}}
    assert flows_of(graph, known) == ({"Parser[0]": {"O0": [1.0, 2.0]}}, True)
    assert flows_of(graph, {"Parser[0]": {"O0": [1.0, 2.0, 3.0]}}) == ({}, False)
    assert flows_of(graph, {"Parser[0]": {"O0": [0.0, 0.0]}}) == ({}, False)


def test_rates_of_windows_are_what_they_read() -> None:
    graph = graph_of(spec_of())
    flows = dict.fromkeys(graph.partitions, (5.0, 2.0))
    rates, source = rates_of(graph, flows, {})
    assert source == MEASURED
    assert {rates["Source[0]"], rates["Parser[1]"]} == {2.0}
    assert {rates["O0[0]"], rates["O1[0]"]} == {5.0}
    silent = {**flows, "Parser[0]": (5.0, 0.0), "Parser[1]": (6.0, 0.0)}
    assert rates_of(graph, silent, {})[0]["Parser[1]"] == 6.0
    assert rates_of(graph, {}, {})[1] == EQUAL


def test_averages_count_where_they_are_of_this_specification() -> None:
    graph = graph_of(spec_of())
    flows = dict.fromkeys(graph.partitions, (5.0, 2.0))
    averages = dict.fromkeys(graph.partitions, 3.0)
    rates, source = rates_of(graph, flows, averages)
    assert (source, rates["Source[0]"], rates["O0[0]"]) == (MEASURED, 3.0, 5.0)
    assert rates_of(graph, flows, averages | {"Old[0]": 1.0})[0]["Source[0]"] == 2.0


@pytest.mark.parametrize(
    ("query", "path", "message"),
    [
        ("budget=-1", "budget", "greater than or equal to 0"),
        ("budget=100001", "budget", "less than or equal to 100000"),
        ("budget=", "budget", "integer"),
        ("budget=some", "budget", "integer"),
        ("budget=1.5", "budget", "integer"),
        ("planner=magic", "planner", "magic"),
        ("planner=", "planner", "not a valid choice"),
        ("objective=magic", "objective", "magic"),
        ("buget=3", "buget", "known: budget, objective, planner"),
    ],
)
def test_questions_that_cannot_be(
    viewer: APIClient, topology: Topology, query: str, path: str, message: str
) -> None:
    response = viewer.get(f"{URL}?{query}")
    assert response.status_code == 400
    assert message in errors(response)[path]


def test_what_is_too_large_is_refused(
    viewer: APIClient, topology: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology_create(spec=spec_of("wide", parallelism=40), actor="ada", reason="test", channel=Channel.CLI)
    wide = URL.replace("counts", "wide")
    exact = viewer.get(wide, {"planner": "dynamic_programming", "budget": 30})
    assert exact.status_code == 400
    assert "ask structure_aware instead" in errors(exact)["planner"]
    assert viewer.get(wide, {"budget": 30}).status_code == 200
    monkeypatch.setattr(answering, "MOST_PARTITIONS", 5)
    assert "for up to 5" in errors(viewer.get(URL))[""]


def test_who_may_ask(viewer: APIClient, roleless: APIClient, topology: Topology) -> None:
    assert viewer.get(URL.replace("counts", "missing")).status_code == 404
    assert roleless.get(URL).status_code == 403
    assert APIClient().get(URL).status_code == 401
