from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.utils import timezone
from knox.models import AuthToken
from rest_framework.test import APIClient

from controlplane.alerts.models import Silence
from controlplane.events.models import AuditEntry, Operation
from controlplane.incidents.models import Incident, IncidentEntry, RecoveryPlan
from controlplane.lifecycle.topologies import topology_deploy
from controlplane.nodes.choices import NodeState
from controlplane.nodes.models import Node
from controlplane.topologies.models import AvailabilitySample, FormerTopology, Topology
from controlplane.topologies.services import topology_delete
from tests.unit.controlplane.specs import BY, spec_of

API = "/api/v1"
WHY = {"reason": "because"}


def errors(response: Any) -> dict[str, str]:
    return {error["path"]: error["message"] for error in response.json()["errors"]}


def test_create_read_update_delete(operator: APIClient, nodes: list[Node]) -> None:
    created = operator.post(f"{API}/topologies/", {"spec": spec_of(), **WHY})
    assert created.status_code == 201
    assert created["Location"] == f"{API}/topologies/counts/"
    assert created.json()["queries_total"] == 3
    assert operator.get(f"{API}/topologies/counts/").json()["spec"]["name"] == "counts"
    changed = spec_of(parallelism=4)
    replacement = {"spec": changed, **WHY}
    seen = {"If-Match": created["ETag"]}
    assert operator.put(f"{API}/topologies/counts/", replacement, headers=seen).json()["version"] == 2
    versions = operator.get(f"{API}/topologies/counts/versions/").json()["results"]
    assert [version["number"] for version in versions] == [2, 1]
    assert operator.delete(f"{API}/topologies/counts/").status_code == 400
    assert operator.delete(f"{API}/topologies/counts/?reason=old").status_code == 204
    assert operator.get(f"{API}/topologies/counts/").status_code == 404


def test_a_ready_made_pipeline_by_name(operator: APIClient) -> None:
    body = {"pipeline": "hashtags", "name": "mine", "rate": 500, "limit": 10_000, **WHY}
    created = operator.post(f"{API}/topologies/", body).json()
    assert (created["name"], created["queries_total"]) == ("mine", 15)
    source = created["spec"]["operators"][0]["params"]
    assert (source["rate"], source["limit"]) == (500, 10_000)
    assert "hashtags" in [row["name"] for row in operator.get(f"{API}/pipelines/").json()]


def _broken(change: Any) -> dict[str, Any]:
    spec = spec_of()
    change(spec["operators"], spec)
    return spec


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        (lambda o, s: o[2].update(kind="nonsense"), "operators[2].kind", "unknown operator kind 'nonsense'"),
        (lambda o, s: o[2].update(parallelism=0), "operators[2].parallelism", "at least 1"),
        (lambda o, s: o[2].update(priority=11), "operators[2].priority", "at most 10"),
        (lambda o, s: o[1].update(inputs=[{"from": "O0"}]), "operators", "cycle without a `feedback` stream"),
        (lambda o, s: o[3].update(name="O0"), "operators[3].name", "already operators[2]"),
        (
            lambda o, s: o[3].update(inputs=[{"from": "Missing"}]),
            "operators[3].inputs[0].from",
            "no operator",
        ),
        (lambda o, s: o[0].update(params={"rate": -1}), "operators[0].params", "rate must be"),
        (lambda o, s: s.update(name="Not A Name"), "name", "small letter"),
        (lambda o, s: s.update(operators=[]), "operators", "at least one"),
        (lambda o, s: s.update(surprise=1), "surprise", "no such field"),
    ],
)
def test_a_bad_specification_says_what_and_where(
    operator: APIClient, change: Any, path: str, message: str
) -> None:
    response = operator.post(f"{API}/topologies/", {"spec": _broken(change), **WHY})
    assert response.status_code == 400
    assert message in errors(response)[path]
    assert not Topology.objects.exists()


def test_all_faults_are_named_at_once(operator: APIClient) -> None:
    def change(operators: Any, spec: Any) -> None:
        operators[2]["kind"] = "nonsense"
        operators[3]["inputs"] = []

    response = operator.post(f"{API}/topologies/", {"spec": _broken(change), **WHY})
    assert set(errors(response)) == {"operators[2].kind", "operators[3].inputs"}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"spec": 5},
        {"spec": "a: [unclosed"},
        {"spec": None},
        {"spec": spec_of(), "pipeline": "hashtags"},
        {"pipeline": "nope"},
        {"pipeline": "../../../etc/passwd"},
        {"pipeline": "hashtags", "rate": 0},
        {"pipeline": "hashtags", "limit": "many"},
    ],
)
def test_odd_bodies_are_refused(operator: APIClient, body: dict[str, Any]) -> None:
    response = operator.post(f"{API}/topologies/", {**body, **WHY})
    assert response.status_code == 400
    assert all(error["message"] for error in response.json()["errors"])


def test_a_duplicate_name_is_a_conflict(operator: APIClient, topology: Topology) -> None:
    response = operator.post(f"{API}/topologies/", {"spec": spec_of(), **WHY})
    assert response.status_code == 409
    assert "'counts' already" in errors(response)[""]


@pytest.mark.parametrize("action", ["deploy", "undeploy", "checkpoint", "recover", "pause", "resume"])
def test_actions_need_a_reason_and_a_known_topology(
    operator: APIClient, topology: Topology, action: str
) -> None:
    response = operator.post(f"{API}/topologies/counts/{action}/", {})
    assert (response.status_code, list(errors(response))) == (400, ["reason"])
    assert operator.post(f"{API}/topologies/missing/{action}/", WHY).status_code == 404


def test_deployment_answers_202_with_an_operation(operator: APIClient, topology: Topology) -> None:
    answer = operator.post(f"{API}/topologies/counts/deploy/", WHY)
    assert answer.status_code == 202
    operation = operator.get(answer["Location"]).json()
    assert (operation["kind"], operation["target"], operation["state"]) == (
        "topology.deploy",
        "counts",
        "pending",
    )
    again = operator.post(f"{API}/topologies/counts/deploy/", WHY)
    assert again.status_code == 409
    audit = operator.get(f"{API}/audit/?action=topology.deploy").json()["results"]
    assert [(row["actor"], row["reason"]) for row in audit] == [("operator", "because")]


def test_an_idempotency_key_repeats_the_answer(operator: APIClient, topology: Topology) -> None:
    answers = [
        operator.post(f"{API}/topologies/counts/deploy/", WHY, headers={"Idempotency-Key": "one"})
        for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[0].json()["id"] == answers[1].json()["id"]
    other = operator.post(f"{API}/topologies/counts/undeploy/", WHY, headers={"Idempotency-Key": "one"})
    assert other.status_code == 409
    long = operator.post(f"{API}/topologies/counts/deploy/", WHY, headers={"Idempotency-Key": "x" * 200})
    assert (long.status_code, list(errors(long))) == (400, ["Idempotency-Key"])


def test_an_idempotency_key_with_other_parameters_is_refused(operator: APIClient, topology: Topology) -> None:
    def sent(path: str, body: dict[str, Any], key: str) -> Any:
        return operator.post(f"{API}/topologies/counts/{path}/", body, headers={"Idempotency-Key": key})

    assert sent("deploy", WHY, "one").status_code == 202
    other = sent("deploy", {"reason": "another one"}, "one")
    assert (other.status_code, "with other parameters" in errors(other)[""]) == (409, True)
    assert sent("deploy", WHY, "one").status_code == 202, "the first one still gives its operation"
    Topology.objects.update(status="running")
    first = sent("park", {"queries": ["O0[0]"], **WHY}, "two")
    assert first.status_code == 202
    assert sent("park", {"queries": ["O1[0]"], **WHY}, "two").status_code == 409
    assert sent("park", {"queries": ["O0[0]"], **WHY}, "two").json()["id"] == first.json()["id"]
    assert Operation.objects.count() == 2
    assert AuditEntry.objects.exclude(action="topology.create").count() == 2
    # A refusal keeps nothing: the key is free for the request as it should have been.
    assert sent("park", {"queries": ["nonsense"], **WHY}, "three").status_code in (400, 404, 409)
    assert sent("park", {"queries": ["O1[0]"], **WHY}, "three").status_code == 202


def test_a_creation_is_safe_to_repeat(operator: APIClient, viewer: APIClient, nodes: list[Node]) -> None:
    key = {"Idempotency-Key": "one"}
    body = {"spec": spec_of(), **WHY}
    first, again = (operator.post(f"{API}/topologies/", body, headers=key) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert (again["Location"], again["ETag"]) == (first["Location"], first["ETag"])
    assert AuditEntry.objects.count() == 1
    other = operator.post(f"{API}/topologies/", {**body, "reason": "other"}, headers=key)
    assert (other.status_code, "another request" in errors(other)[""]) == (409, True)
    taken = operator.post(f"{API}/topologies/", body, headers={"Idempotency-Key": "two"})
    assert taken.status_code == 409
    topology_delete(name="counts", **BY)
    freed = operator.post(f"{API}/topologies/", body, headers={"Idempotency-Key": "two"})
    assert freed.status_code == 201, "a refusal is not kept"


def test_the_key_of_a_creation_and_of_an_action_are_one(operator: APIClient, topology: Topology) -> None:
    until = (timezone.now() + timedelta(hours=1)).isoformat()

    def silence(key: str) -> int:
        body = {"topology": "counts", "until": until, **WHY}
        return operator.post(f"{API}/silences/", body, headers={"Idempotency-Key": key}).status_code

    def deploy(key: str) -> int:
        path = f"{API}/topologies/counts/deploy/"
        return operator.post(path, WHY, headers={"Idempotency-Key": key}).status_code

    assert (silence("one"), deploy("one"), silence("one")) == (201, 409, 201)
    assert (deploy("two"), silence("two"), deploy("two")) == (202, 409, 202)
    assert (Operation.objects.count(), Silence.objects.count()) == (1, 1)


def test_a_deletion_says_what_becomes_of_the_outputs(operator: APIClient, topology: Topology) -> None:
    path = f"{API}/topologies/counts/"
    refused = operator.delete(f"{path}?reason=over&outputs=burn")
    assert (refused.status_code, "outputs" in errors(refused)) == (400, True)
    assert operator.delete(f"{path}?reason=over&outputs=remove").status_code == 204
    assert FormerTopology.objects.get().outputs == "remove"
    assert operator.post(f"{API}/topologies/", {"spec": spec_of(), **WHY}).status_code == 201
    assert operator.delete(path, {"reason": "over"}).status_code == 204
    assert FormerTopology.objects.get().outputs == "keep"


def test_a_query_priority_is_writable(operator: APIClient, topology: Topology) -> None:
    path = f"{API}/topologies/counts/queries/O0[0]/"
    assert operator.patch(path, {"priority": 9, **WHY}).json()["priority"] == 9
    assert operator.get(path).json()["priority"] == 9
    for wrong in (0, 11, "high", 2.5, None):
        response = operator.patch(path, {"priority": wrong, **WHY})
        assert (response.status_code, list(errors(response))) == (400, ["priority"])
    assert (
        operator.patch(f"{API}/topologies/counts/queries/O9[0]/", {"priority": 1, **WHY}).status_code == 404
    )
    several = operator.patch(
        f"{API}/topologies/counts/queries/", {"priorities": {"O0[1]": 2, "O1[0]": 5}, **WHY}
    )
    assert [row["priority"] for row in several.json()] == [2, 5]
    unknown = operator.patch(f"{API}/topologies/counts/queries/", {"priorities": {"O7[1]": 2}, **WHY})
    assert unknown.status_code == 404


def test_roles(viewer: APIClient, roleless: APIClient, topology: Topology) -> None:
    assert viewer.get(f"{API}/topologies/").status_code == 200
    assert viewer.get(f"{API}/snapshot/").status_code == 200
    assert viewer.post(f"{API}/topologies/counts/deploy/", WHY).status_code == 403
    assert viewer.patch(f"{API}/topologies/counts/queries/O0[0]/", {"priority": 2, **WHY}).status_code == 403
    assert roleless.get(f"{API}/topologies/").status_code == 403
    assert APIClient().get(f"{API}/topologies/").status_code == 401
    assert viewer.get(f"{API}/me/").json() == {"username": "viewer", "role": "viewer"}


def test_a_user_has_so_many_tokens(operator: APIClient, viewer: APIClient, monkeypatch: Any) -> None:
    monkeypatch.setattr("controlplane.accounts.services.MOST_TOKENS", 2)
    codes = [operator.post(f"{API}/tokens/", WHY).status_code for _ in range(3)]
    assert codes == [201, 201, 409]
    assert viewer.post(f"{API}/tokens/", WHY).status_code == 201
    key = operator.get(f"{API}/tokens/").json()["results"][0]["token_key"]
    AuthToken.objects.filter(token_key=key).update(expiry=timezone.now())
    assert operator.post(f"{API}/tokens/", WHY).status_code == 201, "one has expired"


def test_tokens_that_are_made_and_revoked_do_not_fill_the_audit_trail(
    operator: APIClient, viewer: APIClient, monkeypatch: Any
) -> None:
    monkeypatch.setattr("controlplane.accounts.services.MADE_AN_HOUR", 2)

    def made(client: APIClient) -> int:
        answer = client.post(f"{API}/tokens/", WHY)
        if answer.status_code == 201:
            client.delete(f"{API}/tokens/{answer.json()['token_key']}/?reason=done")
        return answer.status_code

    assert [made(viewer) for _ in range(3)] == [201, 201, 409]
    assert made(operator) == 201
    AuditEntry.objects.update(at=timezone.now() - timedelta(hours=2))
    assert made(viewer) == 201


def test_tokens_are_shown_once_and_stored_hashed(operator: APIClient) -> None:
    made = operator.post(f"{API}/tokens/", {"lifetime_hours": 1, **WHY}).json()
    for prefix in ("Token", "Bearer"):
        robot = APIClient(headers={"Authorization": f"{prefix} {made['token']}"})
        assert robot.get(f"{API}/me/").json()["role"] == "operator"
    listed = operator.get(f"{API}/tokens/").json()["results"]
    assert [row["token_key"] for row in listed] == [made["token_key"]]
    assert "token" not in listed[0]
    assert operator.delete(f"{API}/tokens/{made['token_key']}/?reason=done").status_code == 204
    assert robot.get(f"{API}/me/").status_code == 401
    assert AuditEntry.objects.filter(action__startswith="token.").count() == 2


@pytest.mark.parametrize("header", ["Token", "Token x y", "Bearer \xe9\xff", "Token " + "0" * 64])
def test_bad_tokens_are_refused(db: None, header: str) -> None:
    client = APIClient(HTTP_AUTHORIZATION=header)
    assert client.get(f"{API}/me/").status_code == 401


def test_fail_is_for_experiments_only(
    operator: APIClient, nodes: list[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = operator.post(f"{API}/nodes/node-1/fail/", WHY)
    assert refused.status_code == 403
    assert "RESURGE_FAULT_INJECTION" in errors(refused)[""]
    permitted = type(settings.RESURGE)(
        **{
            name: getattr(settings.RESURGE, name)
            for name in type(settings.RESURGE).__slots__
            if name != "fault_injection"
        },
        fault_injection=True,
    )
    monkeypatch.setattr(settings, "RESURGE", permitted)
    assert operator.post(f"{API}/nodes/node-1/fail/", WHY).status_code == 202
    assert Operation.objects.get().kind == "node.fail"
    assert operator.post(f"{API}/nodes/node-9/fail/", WHY).status_code == 404
    Node.objects.update(state=NodeState.LOST)
    assert operator.post(f"{API}/nodes/node-1/fail/", WHY).status_code == 409


def test_drain_and_activate_need_their_states(operator: APIClient, nodes: list[Node]) -> None:
    assert operator.post(f"{API}/nodes/node-1/activate/", WHY).status_code == 409
    assert operator.post(f"{API}/nodes/node-1/drain/", WHY).status_code == 202


def test_a_rack_is_drained_and_activated(
    operator: APIClient, viewer: APIClient, nodes: list[Node], topology: Topology
) -> None:
    rack = nodes[0].rack
    url = f"{API}/racks/{rack}"
    members = {node.name for node in nodes if node.rack == rack}
    before = viewer.get(f"{url}/").json()
    assert set(before["leaving"]) == set(before["nodes"]) == members
    assert set(before["refusals"]) == {"activate"}
    assert viewer.post(f"{url}/drain/", WHY).status_code == 403
    assert operator.post(f"{url}/drain/", {}).status_code == 400
    refused = operator.post(f"{url}/activate/", WHY)
    assert (refused.status_code, refused.json()["errors"][0]["message"]) == (
        409,
        before["refusals"]["activate"],
    )
    asked = operator.post(f"{url}/drain/", WHY)
    assert asked.status_code == 202
    assert (asked.json()["kind"], asked.json()["target"]) == ("rack.drain", rack)
    Node.objects.filter(rack=rack).update(state="draining")
    after = viewer.get(f"{url}/").json()
    assert (after["leaving"], set(after["draining"]), set(after["refusals"])) == ([], members, {"drain"})
    assert operator.post(f"{url}/activate/", WHY).status_code == 202
    for method in (viewer.get, operator.post):
        assert method(f"{API}/racks/nowhere/").status_code in (404, 405)
    assert operator.post(f"{API}/racks/nowhere/drain/", WHY).status_code == 404


def test_events_by_keyset(operator: APIClient, topology: Topology) -> None:
    topology_deploy(name="counts", **BY)
    seen: list[int] = []
    url: str | None = f"{API}/events/?limit=1"
    while url:
        page = operator.get(url).json()
        seen += [event["sequence"] for event in page["results"]]
        url = page["next"]
    assert seen == list(range(1, page["last_sequence"] + 1))
    assert page["complete"]
    kinds = operator.get(f"{API}/events/?kind=topology.deployed&kind=operation.updated").json()["results"]
    assert {event["kind"] for event in kinds} == {"topology.deployed", "operation.updated"}
    newest = operator.get(f"{API}/events/?newest=true&limit=2").json()["results"]
    assert [event["sequence"] for event in newest] == seen[-2:]
    for wrong in ("after=-1", "after=x", "limit=0", "kind=nonsense"):
        assert operator.get(f"{API}/events/?{wrong}").status_code == 400


def test_incidents_with_story_and_plans(operator: APIClient, topology: Topology, nodes: list[Node]) -> None:
    now = timezone.now()
    incident = Incident.objects.create(number=1, detected_at=now, opened_at=now, checkpoints={"counts": 10})
    incident.failed_nodes.add(*nodes[:2])
    incident.topologies.add(topology)
    IncidentEntry.objects.create(incident=incident, at=now, kind="stimulus", text="node-1 is silent")
    RecoveryPlan.objects.create(topology=topology, incident=incident, generation=1, kind="recover", wave=1)
    listed = operator.get(f"{API}/incidents/").json()["results"]
    assert listed[0]["failed_nodes"] == ["node-1", "node-2"]
    assert operator.get(f"{API}/incidents/1/").json()["entries"][0]["text"] == "node-1 is silent"
    plans = operator.get(f"{API}/incidents/1/plans/").json()["results"]
    assert [(plan["topology"], plan["incident"], plan["generation"]) for plan in plans] == [("counts", 1, 1)]
    assert operator.post(f"{API}/incidents/1/abort/", WHY).json()["kind"] == "incident.abort"
    Incident.objects.update(state="closed")
    assert operator.post(f"{API}/incidents/1/abort/", WHY).status_code == 409
    assert operator.get(f"{API}/incidents/2/").status_code == 404


def test_availability_over_time(operator: APIClient, topology: Topology) -> None:
    now = timezone.now()
    for available in (3, 1):
        AvailabilitySample.objects.create(
            topology=topology, at=now, available=available, total=3, weighted=available / 3
        )
    path = f"{API}/topologies/counts/availability/"
    assert [row["available"] for row in operator.get(path).json()["results"]] == [3, 1]
    assert operator.get(f"{path}?since=2100-01-01T00:00:00Z").json()["results"] == []
    assert operator.get(f"{path}?since=yesterday").status_code == 400
    assert operator.get(f"{API}/topologies/missing/availability/").status_code == 404


def test_errors_of_the_framework_have_the_same_shape(operator: APIClient) -> None:
    broken = operator.post(f"{API}/topologies/", "{", content_type="application/json")
    assert broken.status_code == 400
    assert "JSON" in errors(broken)[""]
    assert operator.put(f"{API}/topologies/", {}).status_code == 405
    assert "errors" in operator.put(f"{API}/topologies/", {}).json()


def test_an_unknown_address_is_refused_in_the_same_shape(operator: APIClient) -> None:
    for path in ("nowhere/", "topologies/counts/nowhere/", "a%0Ab/", "incidents/first/"):
        response = operator.post(f"{API}/{path}", {})
        assert response.status_code == 404
        assert "/api/v1/docs/" in errors(response)[""]


def test_a_session_must_come_with_its_csrf_token(db: None, topology: Topology) -> None:
    user = get_user_model().objects.create_superuser("root", password="secret-for-tests")
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(user)
    assert client.get(f"{API}/me/").json()["role"] == "administrator"
    assert client.post(f"{API}/topologies/counts/deploy/", WHY).status_code == 403


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("incidents/77/", "there is no incident 77"),
        ("nodes/node-9/", "there is no node node-9"),
        ("operations/00000000-0000-0000-0000-000000000000/", "there is no operation 0000"),
        ("audit/77/", "there is no audit entry 77"),
    ],
)
def test_what_is_not_there_is_named(operator: APIClient, path: str, message: str) -> None:
    answer = operator.get(f"{API}/{path}")
    assert answer.status_code == 404
    (error,) = answer.json()["errors"]
    assert error["message"].startswith(message), error
