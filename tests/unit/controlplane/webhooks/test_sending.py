"""A due delivery until its end: signed, repeated, given up."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.errors import Conflict, Missing
from controlplane.events.choices import EventKind
from controlplane.events.models import AuditEntry, Event
from controlplane.webhooks import sending
from controlplane.webhooks.deliveries import (
    delivery_redeliver,
    webhook_test,
)
from controlplane.webhooks.models import Delivery, Webhook
from controlplane.webhooks.payload import MOST_BYTES
from controlplane.webhooks.posting import webhook_post
from controlplane.webhooks.schedule import MOST_TRIES
from controlplane.webhooks.selectors import webhooks_due
from controlplane.webhooks.sending import LONGEST_PAUSE, webhook_send
from tests.unit.controlplane.specs import BY
from tests.unit.controlplane.webhooks.conftest import Made, due_now, log_of
from tests.unit.controlplane.webhooks.receiver import Receiver, hang, with_headers

Publish = Callable[..., Event]


def test_an_event_arrives_signed(made: Made, receiver: Receiver, publish: Publish) -> None:
    event = publish(EventKind.NODE_LOST, node="node-1", reason="heartbeat silent")
    assert webhook_send(webhook_id=made.id) is None
    (got,) = receiver.got
    delivery = Delivery.objects.get()
    assert got.id == str(delivery.pk)
    assert got.signed_with(made.secret)
    assert not got.signed_with("whsec_" + "A" * 44)
    assert got.headers["content-type"] == "application/json"
    assert got.data["type"] == "node.lost"
    assert got.data["timestamp"] == got.data["data"]["at"]
    assert (got.data["data"]["sequence"], got.data["data"]["reason"]) == (event.sequence, "heartbeat silent")
    assert abs(int(got.headers["webhook-timestamp"]) - got.at) < 5
    assert (delivery.state, delivery.attempts, delivery.status, delivery.error) == ("succeeded", 1, 200, "")
    attempt = delivery.log.get()
    assert attempt.excerpt == "answer 200"
    assert attempt.duration is not None
    assert 0.0 < attempt.duration < 5.0
    webhook = made.now()
    assert webhook.succeeded_at is not None
    assert (webhook.lease, webhook.free_at) == (None, None)


def test_500_and_then_200(made: Made, receiver: Receiver, publish: Publish) -> None:
    receiver.answers = [500, 200]
    publish()
    wait = webhook_send(webhook_id=made.id)
    assert wait is not None
    assert 3.0 < wait < 6.5, "the first retry comes after about five seconds"
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.status, delivery.error) == ("pending", 500, "answered 500")
    assert made.now().failing_since is not None
    assert webhook_send(webhook_id=made.id) is None, "no delivery is sent before it is due"
    assert len(receiver.got) == 1
    due_now()
    webhook_send(webhook_id=made.id)
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts, delivery.error) == ("succeeded", 2, "")
    assert log_of(delivery) == [(1, 500, "answered 500"), (2, 200, "")]
    first, second = receiver.got
    assert first.id == second.id, "a receiver can see that it had this delivery before"
    assert first.body == second.body
    assert made.now().failing_since is None


def test_a_receiver_that_hangs(
    made: Made, receiver: Receiver, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "webhook_post", functools.partial(webhook_post, deadline=0.3))
    receiver.answers = [hang, 200]
    publish()
    webhook_send(webhook_id=made.id)
    assert log_of(Delivery.objects.get()) == [(1, None, "no answer within 0.3 s")]
    due_now()
    webhook_send(webhook_id=made.id)
    assert Delivery.objects.get().state == "succeeded"


def test_a_failure_ends_the_round_and_others_are_not_lost(
    made: Made, receiver: Receiver, publish: Publish
) -> None:
    receiver.answers = [503, 200]
    for number in range(3):
        publish(node=f"node-{number}")
    assert webhook_send(webhook_id=made.id) == 1.0, "the others are due, but not at once"
    assert webhook_send(webhook_id=made.id) is None
    assert webhooks_due(at=timezone.now()) == []
    assert len(receiver.got) == 1
    Webhook.objects.update(free_at=timezone.now() - timedelta(seconds=1))
    assert webhooks_due(at=timezone.now()) == [made.id]
    webhook_send(webhook_id=made.id)
    assert [got.data["data"]["node"] for got in receiver.got] == ["node-0", "node-1", "node-2"]
    due_now()
    webhook_send(webhook_id=made.id)
    assert receiver.got[3].data["data"]["node"] == "node-0"
    assert set(Delivery.objects.values_list("state", flat=True)) == {"succeeded"}


def test_who_fails_again_and_again_gets_fewer_requests(
    made: Made, receiver: Receiver, publish: Publish
) -> None:
    receiver.answers = [500]
    for pause in (1, 2, 4, 8, 16, 32, LONGEST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE):
        publish()
        Webhook.objects.update(free_at=None)
        before = timezone.now()
        webhook_send(webhook_id=made.id)
        after = timezone.now()
        free_at = made.now().free_at
        assert free_at is not None
        assert before <= free_at - timedelta(seconds=pause) <= after
    receiver.answers = [200]
    webhook_test(webhook_id=made.id, **BY)
    webhook_send(webhook_id=made.id)
    assert receiver.got[9].data["type"] == "webhook.test", (
        "a test that a user asks for does not wait for the pause"
    )


def test_events_arrive_in_their_order(made: Made, receiver: Receiver, publish: Publish) -> None:
    sequences = [publish().sequence for _ in range(5)]
    webhook_send(webhook_id=made.id)
    assert [got.data["data"]["sequence"] for got in receiver.got] == sequences


@pytest.mark.parametrize("status", [429, 503])
def test_a_receiver_may_ask_for_time(made: Made, receiver: Receiver, publish: Publish, status: int) -> None:
    receiver.answers = [with_headers(status, retry_after="120")]
    publish()
    wait = webhook_send(webhook_id=made.id)
    assert wait is not None
    assert 115 < wait <= 120


def test_given_up_after_many_tries_and_sent_again_by_hand(
    made: Made, receiver: Receiver, publish: Publish, sent_tasks: list[Any]
) -> None:
    receiver.answers = [*([404] * MOST_TRIES), 200]
    publish()
    for _ in range(MOST_TRIES):
        due_now()
        wait = webhook_send(webhook_id=made.id)
    assert wait is None
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.attempts, delivery.error) == ("given_up", MOST_TRIES, "answered 404")
    assert delivery.ended_at is not None
    due_now()
    webhook_send(webhook_id=made.id)
    assert len(receiver.got) == MOST_TRIES
    delivery_redeliver(delivery_id=delivery.pk, **BY)
    webhook_send(webhook_id=made.id)
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts, delivery.requested_by) == ("succeeded", MOST_TRIES + 1, "ada")
    assert {got.id for got in receiver.got} == {str(delivery.pk)}
    entry = AuditEntry.objects.get(action="webhook.redeliver")
    assert (entry.target, entry.reason, entry.before["state"]) == ("pager", "test", "given_up")


def test_a_large_event_goes_without_its_changes(made: Made, receiver: Receiver, publish: Publish) -> None:
    changes = [{"entity": "node", "key": "n", "fields": {"name": "x" * MOST_BYTES}}]
    event = publish(changes=changes)
    webhook_send(webhook_id=made.id)
    assert receiver.got[0].data["data"]["changes"] is None
    assert receiver.got[0].data["data"]["sequence"] == event.sequence
    assert len(receiver.got[0].body) < 1000


def test_an_event_that_is_gone_cannot_be_sent(made: Made, receiver: Receiver, publish: Publish) -> None:
    event = publish()
    event.delete()
    webhook_send(webhook_id=made.id)
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.error) == (
        "given_up",
        f"event {delivery.sequence} is no longer kept",
    )
    with pytest.raises(Conflict, match="no longer kept"):
        delivery_redeliver(delivery_id=delivery.pk, **BY)
    with pytest.raises(Missing):
        delivery_redeliver(delivery_id="2e9d6d1e-0000-4000-8000-000000000000", **BY)
