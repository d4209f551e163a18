"""From a due delivery to its end: retries, giving up, disabling, and workers that die."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.utils import timezone

from controlplane.errors import Conflict, Missing
from controlplane.events.choices import EventKind
from controlplane.events.models import AuditEntry, Event
from controlplane.events.tasks import WEBHOOK_SEND
from controlplane.topologies.models import Problem
from controlplane.webhooks import sending, tasks
from controlplane.webhooks.deliveries import (
    DELIVERIES_KEPT,
    deliveries_trim,
    delivery_redeliver,
    webhook_test,
)
from controlplane.webhooks.models import Delivery, DeliveryAttempt, Webhook, WebhookSecret
from controlplane.webhooks.payload import MOST_BYTES
from controlplane.webhooks.posting import webhook_post
from controlplane.webhooks.schedule import DISABLED_AFTER, MOST_TRIES
from controlplane.webhooks.selectors import webhooks_due
from controlplane.webhooks.sending import LEASE, LONGEST_PAUSE, NO_OUTCOME, webhook_send
from controlplane.webhooks.services import (
    webhook_create,
    webhook_delete,
    webhook_secret_rotate,
    webhook_update,
)
from tests.unit.controlplane.following import Follower
from tests.unit.webhooks.conftest import BY, Made, due_now
from tests.unit.webhooks.receiver import Receiver, hang, with_headers

Publish = Callable[..., Event]


def log_of(delivery: Delivery) -> list[tuple[int, int | None, str]]:
    return list(delivery.log.order_by("number").values_list("number", "status", "error"))


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
    assert webhook_send(webhook_id=made.id) is None, "nothing is due before its time"
    assert len(receiver.got) == 1
    due_now()
    webhook_send(webhook_id=made.id)
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts, delivery.error) == ("succeeded", 2, "")
    assert log_of(delivery) == [(1, 500, "answered 500"), (2, 200, "")]
    first, second = receiver.got
    assert first.id == second.id, "a receiver can tell that it has had it"
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
    pauses = []
    for _ in range(9):
        publish()
        before = timezone.now()
        Webhook.objects.update(free_at=None)
        webhook_send(webhook_id=made.id)
        free_at = made.now().free_at
        assert free_at is not None
        pauses.append(round((free_at - before).total_seconds()))
    assert pauses == [1, 2, 4, 8, 16, 32, LONGEST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE]
    receiver.answers = [200]
    webhook_test(webhook_id=made.id, **BY)
    webhook_send(webhook_id=made.id)
    assert receiver.got[9].data["type"] == "webhook.test", "whoever asks does not wait for the pause"


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


def test_a_worker_dies_between_sending_and_recording(
    made: Made, receiver: Receiver, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish()
    with monkeypatch.context() as patch:
        patch.setattr(sending, "_record", _die)
        with pytest.raises(KeyboardInterrupt):
            webhook_send(webhook_id=made.id)
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.attempts) == ("pending", 1)
    assert delivery.log.get().duration is None
    due_now()
    webhook_send(webhook_id=made.id)
    assert [got.id for got in receiver.got] == [str(delivery.pk)] * 2
    assert log_of(delivery) == [(1, None, NO_OUTCOME), (2, 200, "")]


def test_a_request_that_kills_its_worker_is_not_sent_for_ever(
    made: Made, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish()
    monkeypatch.setattr(sending, "_record", _die)
    for _ in range(MOST_TRIES):
        due_now()
        with pytest.raises(KeyboardInterrupt):
            webhook_send(webhook_id=made.id)
    due_now()
    webhook_send(webhook_id=made.id)
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.attempts, delivery.error) == ("given_up", MOST_TRIES, NO_OUTCOME)


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def test_one_worker_at_a_time_and_a_dead_ones_lease_runs_out(
    made: Made, receiver: Receiver, publish: Publish
) -> None:
    publish()
    now = timezone.now()
    lease = "2e9d6d1e-0000-4000-8000-000000000000"
    Webhook.objects.update(lease=lease, free_at=now + LEASE)
    assert webhook_send(webhook_id=made.id) is None
    assert receiver.got == []
    assert str(made.now().lease) == lease
    Webhook.objects.update(free_at=now - timedelta(seconds=1))
    webhook_send(webhook_id=made.id)
    assert len(receiver.got) == 1


@pytest.mark.parametrize(
    ("second", "late", "after"),
    [
        (200, 500, ("succeeded", 200, "")),
        (503, 500, ("pending", 503, "answered 503")),
        (503, 200, ("succeeded", 200, "")),
    ],
)
def test_an_outcome_that_comes_late_harms_nothing(
    made: Made,
    receiver: Receiver,
    publish: Publish,
    second: int,
    late: int,
    after: tuple[str, int, str],
) -> None:
    """A worker stops for longer than its lease; another one sends; then the first one goes on."""
    receiver.answers = [second, late]
    publish()
    lease = "2e9d6d1e-0000-4000-8000-000000000000"
    Webhook.objects.update(lease=lease, free_at=timezone.now() + LEASE)
    first = sending._take(made.id, lease)
    assert first is not None
    due_now()
    Webhook.objects.update(free_at=timezone.now() - timedelta(seconds=1))
    webhook_send(webhook_id=made.id)
    due_at = Delivery.objects.get().due_at
    networks = django_settings.RESURGE.webhook_networks
    outcome = webhook_post(first.url, headers=first.headers, body=first.body, networks=networks)
    sending._record(first, outcome)
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.status, delivery.error) == after
    assert delivery.due_at == due_at
    assert list(delivery.log.order_by("number").values_list("status", flat=True)) == [late, second]


def test_what_is_written_while_a_round_ends_is_sent(
    made: Made, receiver: Receiver, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own message finds the lease taken, so the holder of the lease has to look again."""
    take = sending._take
    written: list[Event] = []

    def then_write(*arguments: Any) -> Any:
        taken = take(*arguments)
        if taken is None and not written:
            written.append(publish())
            assert webhook_send(webhook_id=made.id) is None, "the message of the event"
        return taken

    monkeypatch.setattr(sending, "_take", then_write)
    webhook_send(webhook_id=made.id)
    assert [got.data["data"]["sequence"] for got in receiver.got] == [written[0].sequence]


def test_410_disables_at_once(made: Made, receiver: Receiver, publish: Publish) -> None:
    follower = Follower()
    receiver.answers = [410]
    publish()
    publish()
    assert webhook_send(webhook_id=made.id) is None
    webhook = made.now()
    assert (webhook.enabled, webhook.disabled_because) == (False, "the receiver answered 410 Gone")
    assert list(Delivery.objects.values_list("state", flat=True)) == ["given_up", "given_up"]
    problem = Problem.objects.get()
    assert problem.where == "webhook pager"
    assert "410 Gone" in problem.what
    assert "s3cret-path" not in problem.what
    assert "enable it again" in problem.hint
    entry = AuditEntry.objects.get(action="webhook.disable")
    assert (entry.actor, entry.door, entry.target) == ("system", "system", "pager")
    follower.check()


def test_disabled_after_a_day_of_failures_only(made: Made, receiver: Receiver, publish: Publish) -> None:
    receiver.answers = [500]
    publish()
    began = timezone.now() - DISABLED_AFTER
    Webhook.objects.update(failing_since=began, failures=3)
    webhook_send(webhook_id=made.id)
    assert made.now().enabled, "a day, but few attempts"
    Webhook.objects.update(failing_since=began + timedelta(minutes=5), failures=MOST_TRIES)
    due_now()
    webhook_send(webhook_id=made.id)
    assert made.now().enabled, "many attempts, but less than a day"
    Webhook.objects.update(failing_since=began)
    due_now()
    webhook_send(webhook_id=made.id)
    webhook = made.now()
    assert not webhook.enabled
    assert "attempts have failed since" in webhook.disabled_because
    assert Problem.objects.count() == 1
    assert Delivery.objects.count() == 1, "not even the problem is told to it"
    webhook_update(webhook_id=made.id, changes={"enabled": True}, **BY)
    webhook = made.now()
    assert (webhook.enabled, webhook.failures, webhook.failing_since) == (True, 0, None)
    assert webhook.disabled_because == ""


def test_disabling_by_hand_ends_what_waits(made: Made, receiver: Receiver, publish: Publish) -> None:
    publish()
    webhook_update(webhook_id=made.id, changes={"enabled": False}, **BY)
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.error) == ("given_up", "ada disabled the webhook")
    with pytest.raises(Conflict, match="enable it first"):
        delivery_redeliver(delivery_id=delivery.pk, **BY)
    # Even what was written in the same moment is not sent.
    Delivery.objects.update(state="pending")
    webhook_send(webhook_id=made.id)
    assert Delivery.objects.get().error == "the webhook is disabled"
    assert receiver.got == []


def test_a_test_is_tried_once_and_says_nothing_about_health(made: Made, receiver: Receiver) -> None:
    webhook_update(webhook_id=made.id, changes={"enabled": False}, **BY)
    receiver.answers = [500, 200]
    failed = webhook_test(webhook_id=made.id, **BY)
    assert webhook_send(webhook_id=made.id) is None
    failed.refresh_from_db()
    assert (failed.state, failed.status) == ("given_up", 500)
    assert made.now().failing_since is None
    worked = webhook_test(webhook_id=made.id, **BY)
    webhook_send(webhook_id=made.id)
    worked.refresh_from_db()
    assert worked.state == "succeeded"
    assert receiver.got[1].data["type"] == "webhook.test"
    assert receiver.got[1].data["data"] == {"webhook": "pager", "requested_by": "ada"}
    assert receiver.got[1].signed_with(made.secret)
    with pytest.raises(Conflict, match="ask for another"):
        delivery_redeliver(delivery_id=worked.pk, **BY)


def test_two_secrets_sign_while_the_receiver_changes_over(
    made: Made, receiver: Receiver, publish: Publish
) -> None:
    _, second = webhook_secret_rotate(webhook_id=made.id, **BY)
    publish()
    webhook_send(webhook_id=made.id)
    assert receiver.got[0].signed_with(made.secret)
    assert receiver.got[0].signed_with(second)
    _, third = webhook_secret_rotate(webhook_id=made.id, overlap=timedelta(0), **BY)
    publish()
    webhook_send(webhook_id=made.id)
    assert [receiver.got[1].signed_with(one) for one in (made.secret, second, third)] == [False, False, True]
    deliveries_trim()
    assert WebhookSecret.objects.count() == 1


def test_another_secret_key_is_noticed_before_anything_is_signed(
    made: Made, receiver: Receiver, publish: Publish, settings: Any
) -> None:
    publish()
    settings.SECRET_KEY = "another one"
    assert webhook_send(webhook_id=made.id) is None
    assert receiver.got == []
    webhook = made.now()
    assert not webhook.enabled
    assert "RESURGE_SECRET_KEY" in webhook.disabled_because
    assert (webhook.lease, Problem.objects.count()) == (None, 1)


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


def test_a_webhook_that_is_deleted_while_it_is_sent_to(
    made: Made, receiver: Receiver, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish()

    def post_and_delete(*arguments: Any, **options: Any) -> Any:
        outcome = webhook_post(*arguments, **options)
        Webhook.objects.all().delete()
        return outcome

    monkeypatch.setattr(sending, "webhook_post", post_and_delete)
    assert webhook_send(webhook_id=made.id) is None
    assert deliveries_trim() == 1
    assert not DeliveryAttempt.objects.exists()


def test_deleting_leaves_nothing_behind(made: Made, receiver: Receiver, publish: Publish) -> None:
    """Not even what an event wrote that was published at the same moment."""
    publish()
    webhook_delete(webhook_id=made.id, **BY)
    assert not WebhookSecret.objects.exists()
    assert webhooks_due(at=timezone.now()) == []
    assert webhook_send(webhook_id=made.id) is None
    with pytest.raises(Missing):
        delivery_redeliver(delivery_id=Delivery.objects.get().pk, **BY)
    assert deliveries_trim() == 1
    assert not Delivery.objects.exists()
    assert receiver.got == []


def test_old_deliveries_are_trimmed_and_waiting_ones_are_not(made: Made, publish: Publish) -> None:
    old = timezone.now() - DELIVERIES_KEPT - timedelta(seconds=1)
    for state, ended in (
        ("succeeded", old),
        ("given_up", old),
        ("pending", None),
        ("succeeded", timezone.now()),
    ):
        event = publish()
        Delivery.objects.filter(sequence=event.sequence).update(state=state, ended_at=ended, created_at=old)
    assert deliveries_trim() == 2
    assert sorted(Delivery.objects.values_list("state", flat=True)) == ["pending", "succeeded"]


def test_messages_follow_up_and_the_sweep_finds_the_rest(
    made: Made, receiver: Receiver, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[Any, ...]] = []
    monkeypatch.setattr(tasks, "task_send", lambda *given, countdown=None: sent.append((*given, countdown)))
    url = receiver.url
    other, _ = webhook_create(name="chat", url=url, kinds=["node.lost"], **BY)
    receiver.answers = [500, 500, 200]
    publish()
    tasks.send(made.id)
    ((name, webhook_id, countdown),) = sent
    assert (name, webhook_id) == (WEBHOOK_SEND, made.id)
    assert 3.0 < countdown < 6.5
    sent.clear()
    tasks.sweep()
    assert sent == [(WEBHOOK_SEND, other.pk, None)]
    Delivery.objects.update(tries=8)
    due_now()
    sent.clear()
    tasks.send(made.id)
    assert sent == [], "what is that far off is left to the sweep"
    due_now()
    tasks.sweep()
    assert sent == [(WEBHOOK_SEND, made.id, None), (WEBHOOK_SEND, other.pk, None)]
    for _, webhook_id, _ in list(sent):
        tasks.send(webhook_id)
    assert set(Delivery.objects.values_list("state", flat=True)) == {"succeeded"}


def test_a_long_round_hands_over_to_the_next(
    made: Made, receiver: Receiver, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "ROUND", -1.0)
    for _ in range(3):
        publish()
    assert webhook_send(webhook_id=made.id) == 0.0
    assert len(receiver.got) == 1
