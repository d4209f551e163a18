"""Webhooks over REST: for administrators only, audited, and each secret is shown once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from controlplane.events.choices import EventKind
from controlplane.events.models import AuditEntry, Event
from controlplane.webhooks.deliveries import webhook_disable
from controlplane.webhooks.keys import secret_derive, secret_text
from controlplane.webhooks.models import Delivery, Webhook
from controlplane.webhooks.selectors import secrets_stored
from controlplane.webhooks.sending import webhook_send
from controlplane.webhooks.services import MOST_WEBHOOKS
from tests.unit.controlplane.conftest import client_of
from tests.unit.controlplane.webhooks.conftest import Made
from tests.unit.controlplane.webhooks.receiver import Receiver

API = "/api/v1/webhooks/"
WHY = {"reason": "because"}
BODY = {"name": "pager", "url": "https://hooks.example.org/T0/s3cret", "kinds": ["incident.opened"], **WHY}


@pytest.fixture
def administrator(db: None) -> APIClient:
    return client_of("administrator")


def errors(response: Any) -> dict[str, str]:
    return {error["path"]: error["message"] for error in response.json()["errors"]}


def test_set_up_read_change_delete(administrator: APIClient) -> None:
    created = administrator.post(API, BODY)
    assert created.status_code == 201
    secret = created.json()["secret"]
    assert secret.startswith("whsec_")
    shown = administrator.get(created["Location"]).json()
    assert shown == {key: value for key, value in created.json().items() if key != "secret"}
    assert (shown["topologies"], shown["enabled"], shown["pending"]) == ([], True, 0)
    assert shown["created_by"] == "administrator"
    listed = administrator.get(API).json()["results"]
    assert [row["name"] for row in listed] == ["pager"]
    url = created["Location"]
    changed = administrator.patch(url, {"kinds": ["node.lost", "incident.opened"], "enabled": False, **WHY})
    assert changed.status_code == 200
    assert changed.json()["kinds"] == ["incident.opened", "node.lost"]
    assert administrator.patch(url, {"enabled": False, **WHY}).status_code == 200
    assert administrator.delete(url).status_code == 400
    assert administrator.delete(f"{url}?reason=old").status_code == 204
    assert administrator.get(url).status_code == 404
    story = AuditEntry.objects.filter(target="pager").order_by("id")
    assert [entry.action for entry in story] == ["webhook.create", "webhook.update", "webhook.delete"]
    assert [(entry.actor, entry.reason) for entry in story] == [
        ("administrator", "because"), ("administrator", "because"), ("administrator", "old"),
    ]  # fmt: skip
    assert story[1].before == {"kinds": ["incident.opened"], "enabled": True}
    assert story[1].after == {"kinds": ["incident.opened", "node.lost"], "enabled": False}


def test_an_edit_holds_only_for_what_its_author_has_seen(administrator: APIClient, made: Made) -> None:
    path = f"{API}{made.id}/"
    seen = administrator.get(path)["ETag"]
    changed = administrator.patch(path, {"kinds": ["node.lost"], **WHY}, headers={"If-Match": seen})
    assert changed.status_code == 200
    assert changed["ETag"] == administrator.get(path)["ETag"] != seen
    late = administrator.patch(path, {"enabled": False, **WHY}, headers={"If-Match": seen})
    assert late.status_code == 412
    assert late["ETag"] == changed["ETag"]
    assert errors(late)[""] == (
        "webhook pager was changed meanwhile, perhaps by another user; read it again, and repeat your change "
        "if it is still right"
    )
    assert administrator.delete(f"{path}?reason=old", headers={"If-Match": seen}).status_code == 412
    assert made.now().enabled
    assert administrator.patch(path, {"enabled": True, **WHY}, headers={"If-Match": "*"}).status_code == 200
    assert administrator.patch(path, {"enabled": False, **WHY}).status_code == 200, "it is not required"
    late = administrator.delete(f"{path}?reason=old", headers={"If-Match": changed["ETag"]})
    assert late.status_code == 412
    fresh = administrator.get(path)["ETag"]
    assert administrator.delete(f"{path}?reason=old", headers={"If-Match": fresh}).status_code == 204
    story = AuditEntry.objects.filter(target="pager").values_list("action", flat=True).order_by("id")
    assert list(story) == ["webhook.create", "webhook.update", "webhook.update", "webhook.delete"]


def test_how_it_does_does_not_stand_in_the_way(
    administrator: APIClient, made: Made, receiver: Receiver, publish: Callable[..., Event]
) -> None:
    path = f"{API}{made.id}/"
    seen = administrator.get(path)["ETag"]
    receiver.answers = [500]
    publish()
    webhook_send(webhook_id=made.id)
    rotated = administrator.post(f"{path}rotate-secret/", WHY)
    assert made.now().failures == 1
    assert rotated["ETag"] == administrator.get(path)["ETag"] == seen
    webhook_disable(webhook_id=made.id, because="it answered 410 Gone", hint="ask its owner")
    on = administrator.patch(path, {"enabled": True, **WHY}, headers={"If-Match": seen})
    assert on.status_code == 412, "a user who enables it again must have read why it was disabled"


def test_a_new_webhook_comes_with_its_tag(administrator: APIClient) -> None:
    first = administrator.post(API, BODY)
    assert first["ETag"] == administrator.get(first["Location"])["ETag"]
    administrator.delete(f"{first['Location']}?reason=old")
    assert administrator.post(API, BODY)["ETag"] != first["ETag"], "the same name again is another webhook"


def test_a_test_and_a_redelivery_are_safe_to_repeat(
    administrator: APIClient, made: Made, publish: Callable[..., Event]
) -> None:
    key = {"Idempotency-Key": "after-the-upgrade"}
    first = administrator.post(f"{API}{made.id}/test/", WHY, headers=key)
    again = administrator.post(f"{API}{made.id}/test/", WHY, headers=key)
    assert (again.status_code, again.json(), again["Location"]) == (202, first.json(), first["Location"])
    assert Delivery.objects.count() == 1
    assert administrator.post(f"{API}{made.id}/test/", {"reason": "x"}, headers=key).status_code == 409
    publish()
    path = f"{API}{made.id}/deliveries/{Delivery.objects.exclude(kind='webhook.test').get().pk}/redeliver/"
    for _ in range(2):
        assert administrator.post(path, WHY, headers={"Idempotency-Key": "once"}).status_code == 202
    assert AuditEntry.objects.filter(action="webhook.redeliver").count() == 1
    refused = administrator.post(f"{API}{made.id}/test/", {}, headers={"Idempotency-Key": "no-reason"})
    assert (refused.status_code, list(errors(refused))) == (400, ["reason"])


def test_no_secret_is_shown_twice_or_to_others(administrator: APIClient) -> None:
    secret = administrator.post(API, BODY).json()["secret"]
    webhook = Webhook.objects.get()
    moved = administrator.patch(f"{API}{webhook.pk}/", {"url": "https://hooks.example.org/T0/s3cret2", **WHY})
    assert moved.status_code == 200
    rotated = administrator.post(f"{API}{webhook.pk}/rotate-secret/", WHY).json()["secret"]
    assert rotated != secret
    assert [secret_text(secret_derive(one)) for one in secrets_stored(webhook, at=webhook.created_at)] == [
        rotated, secret,
    ]  # fmt: skip
    readable = json.dumps(
        [
            administrator.get(f"{API}{webhook.pk}/").json(),
            administrator.get(API).json(),
            administrator.get("/api/v1/audit/").json(),
        ]
    )
    for text in (secret, rotated):
        assert text.removeprefix("whsec_") not in readable
    audit = json.dumps(administrator.get("/api/v1/audit/").json())
    assert "hooks.example.org" in audit
    assert "s3cret" not in audit, "every viewer may read the audit trail"
    update = AuditEntry.objects.get(action="webhook.update")
    assert update.before["url"] != update.after["url"], "a change of the path shows"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"reason": ""}, "reason"),
        ({"reason": None}, "reason"),
        ({"name": "Not A Name"}, "name"),
        ({"name": "x" * 64}, "name"),
        ({"name": 5.5}, "name"),
        ({"name": None}, "name"),
        ({"url": "ftp://example.org"}, "url"),
        ({"url": "http://127.0.0.2/"}, "url"),
        ({"url": "https://hooks.example.org/" + "x" * 500}, "url"),
        ({"url": ["https://example.org"]}, "url"),
        ({"kinds": []}, "kinds"),
        ({"kinds": ["topology.metrics"]}, "kinds"),
        ({"kinds": ["nonsense"]}, "kinds"),
        ({"kinds": "incident.opened"}, "kinds"),
        ({"kinds": [{"a": 1}]}, "kinds"),
        ({"topologies": ["missing"]}, "topologies"),
        ({"topologies": ["x" * 65]}, "topologies"),
        ({"topologies": "counts"}, "topologies"),
        ({"enabled": "perhaps"}, "enabled"),
        ({"secret": "mine"}, "secret"),
    ],
)
def test_what_cannot_be_is_refused(administrator: APIClient, change: dict[str, Any], path: str) -> None:
    response = administrator.post(API, {**BODY, **change})
    assert response.status_code == 400
    assert any(where.startswith(path) for where in errors(response)), errors(response)
    assert not Webhook.objects.exists()
    made = administrator.post(API, BODY).json()
    if "name" not in change:
        again = administrator.patch(f"{API}{made['id']}/", {"enabled": True, **WHY, **change})
        assert again.status_code == 400
        assert any(where.startswith(path) for where in errors(again)), errors(again)


def test_bodies_that_are_no_objects(administrator: APIClient, made: Made) -> None:
    bodies: list[Any] = [[], "text", 5, None]
    for body in bodies:
        assert administrator.post(API, body).status_code == 400
        assert administrator.patch(f"{API}{made.id}/", body).status_code == 400
        assert administrator.post(f"{API}{made.id}/test/", body).status_code == 400
    assert administrator.patch(f"{API}{made.id}/", WHY).status_code == 400
    assert administrator.patch(f"{API}{made.id}/", {"name": "other", **WHY}).status_code == 400
    for hours in (-1, 721, "long", 1e300):
        response = administrator.post(f"{API}{made.id}/rotate-secret/", {"overlap_hours": hours, **WHY})
        assert (response.status_code, list(errors(response))) == (400, ["overlap_hours"])


def test_a_name_is_taken_once_and_there_is_an_end(administrator: APIClient) -> None:
    administrator.post(API, BODY)
    again = administrator.post(API, BODY)
    assert again.status_code == 409
    assert "'pager' already" in errors(again)[""]
    Webhook.objects.bulk_create(
        Webhook(name=f"hook-{number}", url="https://example.org", kinds=[], created_by="ada")
        for number in range(MOST_WEBHOOKS - 1)
    )
    assert administrator.post(API, {**BODY, "name": "one-more"}).status_code == 409


@pytest.mark.parametrize("role", ["viewer", "operator", None])
def test_webhooks_are_for_administrators(role: str | None, made: Made, publish: Any) -> None:
    publish()
    delivery = Delivery.objects.get()
    client = client_of(role)
    log = f"{API}{made.id}/deliveries/"
    for path in (API, f"{API}{made.id}/", log, f"{log}{delivery.pk}/"):
        assert client.get(path).status_code == 403, path
    for path in (
        API,
        f"{API}{made.id}/test/",
        f"{API}{made.id}/rotate-secret/",
        f"{log}{delivery.pk}/redeliver/",
    ):
        refused = client.post(path, BODY)
        assert refused.status_code == 403, path
        assert "administrator role" in errors(refused)[""]
    assert client.patch(f"{API}{made.id}/", {"enabled": False, **WHY}).status_code == 403
    assert client.delete(f"{API}{made.id}/?reason=x").status_code == 403
    assert APIClient().get(API).status_code == 401
    assert made.now().enabled


def test_the_delivery_log(
    administrator: APIClient,
    made: Made,
    receiver: Receiver,
    publish: Callable[..., Event],
    sent_tasks: list[Any],
) -> None:
    receiver.answers = [500, 200]
    event = publish(EventKind.NODE_LOST, node="node-1")
    webhook_send(webhook_id=made.id)
    assert administrator.get(f"{API}{made.id}/").json()["pending"] == 1
    log = f"{API}{made.id}/deliveries/"
    (row,) = administrator.get(f"{log}?state=pending&kind=node.lost&sequence={event.sequence}").json()[
        "results"
    ]
    assert (row["attempts"], row["status"], row["error"]) == (1, 500, "answered 500")
    assert administrator.get(f"{log}?state=succeeded").json()["results"] == []
    assert administrator.get(f"{log}?state=nonsense").status_code == 400
    assert administrator.get(f"{log}?kind=nonsense").status_code == 400
    both = administrator.get(f"{log}?state=pending&state=succeeded&until=2100-01-01T00:00:00Z").json()
    assert [one["id"] for one in both["results"]] == [row["id"]]
    assert administrator.get(f"{log}?since=2100-01-01T00:00:00Z").json()["results"] == []
    detail = administrator.get(f"{log}{row['id']}/").json()
    assert detail["log"][0]["excerpt"] == "answer 500"
    assert detail["log"][0]["duration"] > 0
    assert detail["body"].encode() == receiver.got[0].body
    again = administrator.post(f"{log}{row['id']}/redeliver/", WHY)
    assert again.status_code == 202
    assert again["Location"] == f"{log}{row['id']}/"
    webhook_send(webhook_id=made.id)
    assert administrator.get(again["Location"]).json()["state"] == "succeeded"
    Event.objects.all().delete()
    assert administrator.get(again["Location"]).json()["body"] is None
    refused = administrator.post(f"{log}{row['id']}/redeliver/", WHY)
    assert (refused.status_code, "no longer kept" in errors(refused)[""]) == (409, True)


def test_a_test_is_answered_with_what_to_follow(
    administrator: APIClient, made: Made, receiver: Receiver
) -> None:
    answer = administrator.post(f"{API}{made.id}/test/", WHY)
    assert (answer.status_code, answer.json()["kind"]) == (202, "webhook.test")
    webhook_send(webhook_id=made.id)
    followed = administrator.get(answer["Location"]).json()
    assert (followed["state"], followed["status"], followed["requested_by"]) == (
        "succeeded",
        200,
        "administrator",
    )
    assert json.loads(followed["body"])["type"] == "webhook.test"
    entry = AuditEntry.objects.get(action="webhook.test")
    assert (entry.target, entry.after) == ("pager", {"delivery": followed["id"]})


def test_what_is_not_there(administrator: APIClient, made: Made) -> None:
    nowhere = "2e9d6d1e-0000-4000-8000-000000000000"
    for path in (
        f"{API}999/",
        f"{API}999/deliveries/",
        f"{API}{made.id}/deliveries/{nowhere}/",
        f"{API}{10**17}/",
    ):
        assert administrator.get(path).status_code == 404, path
    assert administrator.post(f"{API}999/test/", WHY).status_code == 404
    assert administrator.post(f"{API}{made.id}/deliveries/{nowhere}/redeliver/", WHY).status_code == 404
    assert administrator.get(f"{API}pager/").status_code == 404
    assert administrator.get(f"{API}{made.id}/deliveries/not-an-id/").status_code == 404
    assert administrator.post(f"{API}{made.id}/deliveries/{'-' * 36}/redeliver/", WHY).status_code == 404


def test_a_delivery_belongs_to_its_webhook(administrator: APIClient, made: Made, publish: Any) -> None:
    publish()
    delivery = Delivery.objects.get()
    other = administrator.post(API, {**BODY, "name": "other"}).json()
    path = f"{API}{other['id']}/deliveries/{delivery.pk}/"
    assert administrator.get(path).status_code == 404
    assert administrator.post(f"{path}redeliver/", WHY).status_code == 404
