"""Topologies, versions, policies, priorities and nodes: edits that succeed and edits that are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from django.test import Client

from controlplane.events.models import AuditEntry, Operation
from controlplane.nodes.models import Node
from controlplane.topologies.models import Query, Topology, TopologyVersion
from controlplane.topologies.permitted import NO_CHECKPOINT
from tests.unit.controlplane.administration.conftest import errors_of
from tests.unit.controlplane.specs import spec_of

WHY = {"reason": "because"}
TOPOLOGIES = "/admin/topologies/topology/"
POLICY = {
    "method": "auto",
    "planner": "best_density",
    "rollback": "ancestors",
    "approval": "automatic",
    "rebalancing": "automatic",
    "overload": "automatic",
    "slow_nodes": "automatic",
    "correlation_threshold": "",
    "correlation_window": "",
    "replication_mode": "advise",
    "replication_planner": "structure_aware",
    "replication_budget": "",
    "tentative_output": "off",
    "tentative_fidelity": "0",
    "tentative_worth": "0.5",
    "tentative_except": "[]",
}


@pytest.fixture
def client(browser: Callable[[str | None], Client]) -> Client:
    return browser("operator")


def text(spec: Any) -> str:
    """The text as a browser sends it from a text area."""
    return yaml.safe_dump(spec, sort_keys=False).replace("\n", "\r\n")


def change(topology: Topology, **fields: Any) -> dict[str, Any]:
    newest = topology.versions.order_by("-number")[0].spec
    return {**POLICY, "specification": text(newest), **WHY, **fields}


def audited(action: str) -> AuditEntry:
    return AuditEntry.objects.get(action=action)


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_a_topology_is_added_from_text(client: Client, nodes: list[Node], form: str) -> None:
    given = text(spec_of()) if form == "yaml" else json.dumps(spec_of())
    assert client.get(f"{TOPOLOGIES}add/").status_code == 200
    answer = client.post(f"{TOPOLOGIES}add/", {"specification": given, **WHY}, follow=True)
    assert "was added successfully" in answer.content.decode()
    topology = Topology.objects.get()
    assert (topology.name, topology.version, topology.queries.count()) == ("counts", 1, 3)
    entry = audited("topology.create")
    assert (entry.actor, entry.channel, entry.reason, entry.target) == (
        "operator",
        "admin",
        "because",
        "counts",
    )
    assert entry.after["name"] == "counts"


def test_a_topology_is_added_from_a_pipeline(client: Client, db: None) -> None:
    body = {"pipeline": "hashtags", "name": "mine", **WHY}
    assert client.post(f"{TOPOLOGIES}add/", {**body, "_continue": "1"}).url == (
        f"{TOPOLOGIES}{Topology.objects.get(name='mine').pk}/change/"
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"specification": text(spec_of())}, "This field is required"),
        ({"specification": text(spec_of()), "reason": "  "}, "This field is required"),
        ({**WHY}, "one of the two"),
        ({"specification": text(spec_of()), "pipeline": "hashtags", **WHY}, "one of the two"),
        ({"pipeline": "nope", **WHY}, "Select a valid choice"),
        ({"specification": "a: [unclosed", **WHY}, "line 2"),
        ({"specification": "- a\n- b", **WHY}, "a topology is a mapping"),
        ({"specification": text({**spec_of(), "surprise": 1}), **WHY}, "surprise"),
        ({"specification": text({**spec_of(), "operators": []}), **WHY}, "operators: "),
        ({"specification": text(spec_of()), "name": "Not A Name", **WHY}, "small letter"),
        ({"specification": text(spec_of()), "name": "x" * 65, **WHY}, "at most 64"),
    ],
)
def test_what_cannot_be_added_keeps_the_form(
    client: Client, db: None, body: dict[str, str], message: str
) -> None:
    answer = client.post(f"{TOPOLOGIES}add/", body)
    assert answer.status_code == 200
    assert message in errors_of(answer)
    assert answer.context["adminform"].form.data.get("specification") == body.get("specification")
    assert not Topology.objects.exists()
    assert not AuditEntry.objects.exists()


def test_a_name_that_is_taken(client: Client, topology: Topology) -> None:
    answer = client.post(f"{TOPOLOGIES}add/", {"specification": text(spec_of()), **WHY})
    assert "already" in errors_of(answer)


def test_a_topology_without_checkpoints_says_why(client: Client, topology: Topology) -> None:
    Topology.objects.update(guarantee="bounded")
    page = client.get(f"{TOPOLOGIES}{topology.pk}/change/").content.decode()
    assert f"none: {NO_CHECKPOINT}" in page


def test_a_new_version_and_a_policy_in_one_edit(client: Client, topology: Topology) -> None:
    url = f"{TOPOLOGIES}{topology.pk}/change/"
    page = client.get(url).content.decode()
    assert "every 10 s (the installation&#x27;s RESURGE_CHECKPOINT_INTERVAL)" in page
    spec = {**spec_of(parallelism=4), "checkpoint_interval": 30}
    body = change(topology, specification=text(spec), planner="optimal", correlation_window="3")
    assert client.post(url, body).status_code == 302
    topology.refresh_from_db()
    assert (topology.version, topology.planner, topology.correlation_window) == (2, "optimal", 3.0)
    assert audited("topology.update").after["version"] == 2
    policy = audited("topology.policy")
    assert (policy.before, policy.after) == (
        {"planner": "best_density", "correlation_window": None},
        {"planner": "optimal", "correlation_window": 3.0},
    )
    page = client.get(url).content.decode()
    assert "every 30 s (`checkpoint_interval` of the specification)" in page
    history = client.get(f"{TOPOLOGIES}{topology.pk}/history/").content.decode()
    assert "topology.policy" in history
    assert "best_density" in history
    assert "because" in history
    assert client.post(url, change(topology, planner="optimal", correlation_window="3")).status_code == 302
    assert AuditEntry.objects.filter(action__startswith="topology.").count() == 3, "nothing was changed"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"reason": ""}, "This field is required"),
        ({"method": "nonsense"}, "Select a valid choice"),
        ({"planner": ""}, "This field is required"),
        ({"correlation_threshold": "0"}, "is not a whole number of nodes from 1"),
        ({"correlation_threshold": "1.5"}, "Enter a whole number"),
        ({"correlation_threshold": "1000000"}, "is not a whole number of nodes from 1"),
        ({"correlation_window": "-1"}, "0 or more seconds"),
        ({"replication_budget": "100001"}, "whole number of partitions from 0 to 100000"),
        ({"tentative_fidelity": "1.5"}, "is not a share from 0 to 1"),
        ({"tentative_worth": "-0.1"}, "is not a share from 0 to 1"),
        ({"tentative_except": "O1"}, "valid JSON"),
        ({"tentative_except": "{}"}, "not a list of names of operators"),
        ({"replication_planner": "magic"}, "not one of the available choices"),
        ({"correlation_window": "nan"}, "Enter a number"),
        ({"specification": ""}, "This field is required"),
        ({"specification": "name: counts"}, "operators"),
        ({"specification": text({**spec_of(), "name": "other"})}, "keeps its name"),
    ],
)
def test_edits_that_cannot_be_change_nothing(
    client: Client, topology: Topology, fields: dict[str, str], message: str
) -> None:
    answer = client.post(f"{TOPOLOGIES}{topology.pk}/change/", change(topology, approval="approve", **fields))
    assert answer.status_code == 200
    assert message in errors_of(answer)
    assert answer.context["adminform"].form["approval"].value() == "approve", "what was entered stays"
    topology.refresh_from_db()
    assert topology.approval == "automatic"
    assert not AuditEntry.objects.filter(actor="operator").exists()


def test_half_an_edit_is_none(client: Client, topology: Topology) -> None:
    """The specification is valid and the policy is not: neither is changed."""
    body = change(topology, specification=text(spec_of(parallelism=4)), correlation_window="-1")
    assert client.post(f"{TOPOLOGIES}{topology.pk}/change/", body).status_code == 200
    topology.refresh_from_db()
    assert (topology.version, TopologyVersion.objects.count()) == (1, 1)
    assert not AuditEntry.objects.filter(actor="operator").exists()


def test_a_deployed_topology_keeps_its_version_but_not_its_policy(client: Client, topology: Topology) -> None:
    url = f"{TOPOLOGIES}{topology.pk}/change/"
    client.post(TOPOLOGIES, {"action": "deploy", "_selected_action": [topology.pk], **WHY})
    answer = client.post(url, change(topology, specification=text(spec_of(parallelism=4))))
    assert "undeploy it before you update it" in errors_of(answer)
    assert client.post(url, change(topology, approval="approve")).status_code == 302
    topology.refresh_from_db()
    assert (topology.version, topology.approval) == (1, "approve")
    refused = client.post(f"{TOPOLOGIES}{topology.pk}/delete/", WHY)
    assert refused.status_code == 200
    assert "undeploy it before you delete it" in refused.content.decode()
    assert Topology.objects.exists()


def test_deleting_asks_why(client: Client, topology: Topology) -> None:
    url = f"{TOPOLOGIES}{topology.pk}/delete/"
    assert "cannot be undone" in client.get(url).content.decode()
    assert "This field is required" in errors_of(client.post(url, {"reason": ""}))
    assert Topology.objects.exists()
    answer = client.post(url, WHY, follow=True)
    assert "Deleted topology counts." in answer.content.decode()
    assert not Topology.objects.exists()
    assert audited("topology.delete").reason == "because"


def test_an_earlier_version_is_put_back(client: Client, topology: Topology) -> None:
    url = f"{TOPOLOGIES}{topology.pk}/change/"
    client.post(url, change(topology, specification=text(spec_of(parallelism=4))))
    first, second = TopologyVersion.objects.order_by("number")
    versions = "/admin/topologies/topologyversion/"
    both = {"action": "put_back", "_selected_action": [first.pk, second.pk], **WHY}
    assert "Choose one version" in client.post(versions, both, follow=True).content.decode()
    one = {"action": "put_back", "_selected_action": [first.pk], **WHY}
    assert "Put back: 1" in client.post(versions, one, follow=True).content.decode()
    topology.refresh_from_db()
    assert (topology.version, topology.spec) == (3, first.spec)
    assert client.get(f"{versions}{first.pk}/history/").content.decode().count("topology.update") == 2


def test_a_priority(client: Client, topology: Topology) -> None:
    query = Query.objects.get(partition__operator="O1")
    url = f"/admin/topologies/query/{query.pk}/change/"
    for body, message in (
        ({"priority": 8}, "This field is required"),
        ({"priority": 11, **WHY}, "is not between 1 and 10"),
        ({"priority": "high", **WHY}, "Enter a whole number"),
    ):
        answer = client.post(url, body)
        assert answer.status_code == 200
        assert message in errors_of(answer)
    assert client.post(url, {"priority": 8, **WHY}).status_code == 302
    query.refresh_from_db()
    assert query.priority == 8
    entry = audited("query.priority")
    assert (entry.actor, entry.channel, entry.before, entry.after) == (
        "operator", "admin", {"O1[0]": 1}, {"O1[0]": 8},
    )  # fmt: skip
    assert "query.priority" in client.get(url.replace("change", "history")).content.decode()
    other = Query.objects.exclude(pk=query.pk)[0]
    assert (
        "No user has changed this"
        in client.get(f"/admin/topologies/query/{other.pk}/history/").content.decode()
    )


def test_actions_need_a_reason_and_go_through_the_services(client: Client, topology: Topology) -> None:
    def run(action: str, **body: str) -> str:
        given = {"action": action, "_selected_action": [topology.pk], **body}
        return client.post(TOPOLOGIES, given, follow=True).content.decode()

    assert "Say why" in run("deploy")
    assert "Say why" in run("deploy", reason="  ")
    assert not Operation.objects.exists()
    assert "Deploying: 1" in run("deploy", **WHY)
    operation = Operation.objects.get()
    assert (operation.kind, operation.requested_by, operation.reason) == (
        "topology.deploy",
        "operator",
        "because",
    )
    assert audited("topology.deploy").channel == "admin"
    assert "undeploy it before" in run("deploy", **WHY)
    for action, needed in {"checkpoint": "running", "pause": "running", "resume": "paused"}.items():
        assert f"only a {needed} topology" in run(action, **WHY)
    Topology.objects.update(status="running")
    for action in ("checkpoint", "pause", "recover", "undeploy"):
        assert ": 1" in run(action, **WHY)
        assert AuditEntry.objects.filter(action=f"topology.{action}", reason="because").count() == 1


def test_nodes_are_drained_and_activated(client: Client, nodes: list[Node]) -> None:
    def run(action: str, *chosen: Node, **body: str) -> str:
        given = {"action": action, "_selected_action": [node.pk for node in chosen], **body}
        return client.post("/admin/nodes/node/", given, follow=True).content.decode()

    assert "Say why" in run("drain", nodes[0])
    Node.objects.filter(pk=nodes[1].pk).update(state="draining")
    both = run("drain", *nodes[:2], **WHY)
    assert "Draining: 1" in both
    assert "&#x27;node-2&#x27; is draining" in both
    assert "Activating: 1" in run("activate", nodes[1], **WHY)
    assert [operation.target for operation in Operation.objects.order_by("created_at")] == [
        "node-1",
        "node-2",
    ]
    assert "node.drain" in client.get(f"/admin/nodes/node/{nodes[0].pk}/history/").content.decode()


@pytest.mark.parametrize("role", ["viewer", None])
def test_looking_is_not_acting(
    browser: Callable[[str | None], Client], topology: Topology, role: str | None
) -> None:
    client = browser(role)
    for path, action in ((TOPOLOGIES, "deploy"), ("/admin/topologies/topologyversion/", "put_back")):
        client.post(path, {"action": action, "_selected_action": [topology.pk], **WHY})
    url = f"{TOPOLOGIES}{topology.pk}/"
    assert client.post(f"{url}change/", change(topology, approval="approve")).status_code in (302, 403)
    assert client.post(f"{url}delete/", WHY).status_code in (302, 403)
    assert client.post(f"{TOPOLOGIES}add/", {"pipeline": "hashtags", **WHY}).status_code in (302, 403)
    topology.refresh_from_db()
    assert topology.approval == "automatic"
    assert not Operation.objects.exists()
    assert not AuditEntry.objects.exclude(actor="ada").exists()
    if role == "viewer":
        page = client.get(TOPOLOGIES).content.decode()
        assert "Deploy the newest version" not in page
        assert "Add topology" not in client.get(f"{url}change/").content.decode()
