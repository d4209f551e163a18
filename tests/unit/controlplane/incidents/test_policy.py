"""Recovery policies and the orders of an operator, over REST and in the admin site."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.events.models import AuditEntry, Operation
from controlplane.incidents.models import Incident
from controlplane.topologies.models import Topology
from controlplane.topologies.services import topology_update
from tests.unit.controlplane.specs import BY, spec_of

API = "/api/v1"
WHY = {"reason": "because"}
POLICY = f"{API}/topologies/counts/policy/"


def errors(response: Any) -> dict[str, str]:
    return {error["path"]: error["message"] for error in response.json()["errors"]}


def test_a_policy_is_read_and_changed(operator: APIClient, topology: Topology) -> None:
    assert operator.get(POLICY).json() == {
        "method": "auto",
        "planner": "best_density",
        "rollback": "ancestors",
        "approval": "automatic",
        "rebalancing": "automatic",
        "overload": "automatic",
        "slow_nodes": "automatic",
        "correlation_threshold": None,
        "correlation_window": None,
        "replication_mode": "advise",
        "replication_planner": "structure_aware",
        "replication_budget": None,
        "tentative_output": "off",
        "tentative_fidelity": 0.0,
        "tentative_worth": 0.5,
        "tentative_except": [],
    }
    changed = operator.patch(POLICY, {"method": "incremental", "correlation_window": 2.5, **WHY})
    assert changed.status_code == 200
    assert (changed.json()["method"], changed.json()["correlation_window"]) == ("incremental", 2.5)
    assert operator.get(f"{API}/topologies/counts/").json()["policy"] == changed.json()
    shown = operator.get(f"{API}/snapshot/").json()["entities"]["topology"]["counts"]
    assert shown["policy"] == changed.json()
    back = operator.patch(POLICY, {"correlation_window": None, **WHY}, format="json")
    assert back.json()["correlation_window"] is None
    assert AuditEntry.objects.filter(action="topology.policy").count() == 2


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"method": "wishful", **WHY}, "method"),
        ({"planner": "wishful", **WHY}, "planner"),
        ({"rollback": 3, **WHY}, "rollback"),
        ({"approval": None, **WHY}, "approval"),
        ({"rebalancing": "sometimes", **WHY}, "rebalancing"),
        ({"overload": "always", **WHY}, "overload"),
        ({"replication_mode": "perhaps", **WHY}, "replication_mode"),
        ({"correlation_threshold": 0, **WHY}, "correlation_threshold"),
        ({"correlation_threshold": 1.5, **WHY}, "correlation_threshold"),
        ({"correlation_threshold": 10**9, **WHY}, "correlation_threshold"),
        ({"correlation_window": -1, **WHY}, "correlation_window"),
        ({"correlation_window": "nan", **WHY}, "correlation_window"),
        ({"correlation_window": "inf", **WHY}, "correlation_window"),
        ({"replication_planner": "wishful", **WHY}, "replication_planner"),
        ({"replication_budget": -1, **WHY}, "replication_budget"),
        ({"replication_budget": 1.5, **WHY}, "replication_budget"),
        ({"replication_budget": 100_001, **WHY}, "replication_budget"),
        ({"tentative_output": "maybe", **WHY}, "tentative_output"),
        ({"tentative_fidelity": 1.5, **WHY}, "tentative_fidelity"),
        ({"tentative_fidelity": None, **WHY}, "tentative_fidelity"),
        ({"tentative_worth": 1.01, **WHY}, "tentative_worth"),
        ({"tentative_except": "O1", **WHY}, "tentative_except"),
        ({"tentative_except": ["O7"], **WHY}, "tentative_except"),
        ({"tentative_except": ["Parser"], **WHY}, "tentative_except"),
        ({"method": "auto"}, "reason"),
        ({"colour": "red", **WHY}, "colour"),
        (WHY, ""),
    ],
)
def test_policies_that_cannot_be_are_refused(
    operator: APIClient, topology: Topology, body: dict[str, Any], path: str
) -> None:
    response = operator.patch(POLICY, body, format="json")
    assert response.status_code == 400
    assert path in errors(response)
    assert not AuditEntry.objects.filter(action="topology.policy").exists()


def test_policies_are_of_known_topologies_and_for_operators(
    operator: APIClient, viewer: APIClient, topology: Topology
) -> None:
    body = {"method": "blocking", **WHY}
    assert operator.get(f"{API}/topologies/missing/policy/").status_code == 404
    assert operator.patch(f"{API}/topologies/missing/policy/", body).status_code == 404
    assert viewer.get(POLICY).status_code == 200
    assert viewer.patch(POLICY, body).status_code == 403


@pytest.fixture
def incident(topology: Topology) -> Incident:
    now = timezone.now()
    return Incident.objects.create(number=1, detected_at=now, opened_at=now)


def order(client: APIClient, what: str, body: dict[str, Any] | None = None, **more: Any) -> Any:
    return client.post(f"{API}/incidents/1/{what}/", WHY if body is None else body, **more)


def test_orders_answer_202_or_say_why_not(operator: APIClient, viewer: APIClient, incident: Incident) -> None:
    for what in ("pause", "replan", "abort"):
        answer = order(operator, what)
        assert answer.status_code == 202, answer.json()
        assert answer.json()["kind"] == f"incident.{what}"
        assert order(viewer, what).status_code == 403
        assert order(operator, what, {}).status_code == 400
    assert "is not paused" in errors(order(operator, "resume"))[""]
    assert "no plan that waits" in errors(order(operator, "approve"))[""]
    incident.paused = True
    incident.proposals = {"counts": {"proposal": "counts-w1-abc"}}
    incident.save()
    assert "paused already" in errors(order(operator, "pause"))[""]
    assert order(operator, "resume").status_code == 202
    stale = order(operator, "approve", {"proposal": "counts-w1-old", **WHY})
    assert stale.status_code == 409
    assert "what is proposed now is counts-w1-abc" in errors(stale)[""]
    assert order(operator, "approve", {"proposal": "x" * 300, **WHY}).status_code == 400
    assert order(operator, "approve", {"proposal": "counts-w1-abc", **WHY}).status_code == 202
    assert Operation.objects.latest("created_at").parameters == {"proposals": ["counts-w1-abc"]}
    incident.state = "closed"
    incident.save()
    for what in ("approve", "pause", "resume", "replan", "abort"):
        assert order(operator, what).status_code == 409
    assert operator.post(f"{API}/incidents/9/pause/", WHY).status_code == 404


def test_an_order_is_given_once_per_key(operator: APIClient, incident: Incident) -> None:
    first = order(operator, "replan", headers={"Idempotency-Key": "once"}).json()
    assert order(operator, "replan", headers={"Idempotency-Key": "once"}).json()["id"] == first["id"]
    assert order(operator, "abort", headers={"Idempotency-Key": "once"}).status_code == 409
    assert AuditEntry.objects.filter(action="incident.replan").count() == 1


def test_the_incident_shows_orders_proposals_and_the_area(operator: APIClient, incident: Incident) -> None:
    shown = operator.get(f"{API}/incidents/1/").json()
    assert (shown["paused"], shown["proposals"], shown["availability_area"]) == (False, {}, None)
    waiting = {
        "proposal": "counts-w1-abc",
        "generation": 1,
        "wave": 1,
        "method": "incremental",
        "rollback": False,
        "restore": ["O0[0]"],
        "queries": ["O0[0]"],
        "reason": "room for one",
    }
    incident.proposals, incident.availability_area = {"counts": waiting}, 0.75
    incident.save()
    shown = operator.get(f"{API}/incidents/1/").json()
    assert (shown["proposals"], shown["availability_area"]) == ({"counts": waiting}, 0.75)
    assert "costs" not in shown


def test_replicas_of_what_is_not_deterministic_are_refused_with_the_reason(
    operator: APIClient, topology: Topology
) -> None:
    spec = {**topology.spec, "operators": [dict(one) for one in topology.spec["operators"]]}
    spec["operators"][1] |= {"deterministic": False}
    Topology.objects.update(spec=spec)
    answer = operator.patch(POLICY, {"replication_mode": "on", **WHY})
    assert answer.status_code == 400
    assert "Parser may give other rows" in errors(answer)["replication_mode"]
    assert operator.patch(POLICY, {"replication_mode": "off", **WHY}).status_code == 200


@pytest.mark.parametrize("field", ["replication_mode", "tentative_output"])
def test_what_needs_rows_that_come_again_is_refused_where_the_guarantee_is_bounded(
    operator: APIClient, topology: Topology, field: str
) -> None:
    topology_update(name="counts", spec={**spec_of(), "guarantee": "bounded"}, **BY)
    answer = operator.patch(POLICY, {field: "on", **WHY})
    assert answer.status_code == 400
    assert "its guarantee is bounded" in errors(answer)[field]
    assert operator.patch(POLICY, {field: "off", **WHY}).status_code == 200


def test_a_change_of_replication_is_carried_out_at_once(
    operator: APIClient,
    topology: Topology,
    sent_tasks: list[tuple[Any, ...]],
    django_capture_on_commit_callbacks: Any,
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        assert operator.patch(POLICY, {"replication_mode": "on", **WHY}).status_code == 200
    assert ("recovery.replicas_place", "counts") in sent_tasks
