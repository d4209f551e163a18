"""Rounds of sending: workers that die or are late, deleted webhooks, and the start of the next round."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.utils import timezone

from controlplane.events.models import Event
from controlplane.events.tasks import WEBHOOK_SEND
from controlplane.webhooks import sending, tasks
from controlplane.webhooks.deliveries import deliveries_trim, delivery_redeliver, webhook_test
from controlplane.webhooks.models import Delivery, DeliveryAttempt, Webhook
from controlplane.webhooks.posting import webhook_post
from controlplane.webhooks.schedule import MOST_TRIES
from controlplane.webhooks.selectors import webhooks_due
from controlplane.webhooks.sending import LEASE, LONGEST_PAUSE, NO_OUTCOME, webhook_send
from controlplane.webhooks.services import (
    webhook_create,
)
from tests.unit.controlplane.specs import BY
from tests.unit.controlplane.webhooks.conftest import Made, due_now, log_of
from tests.unit.controlplane.webhooks.receiver import Receiver

Publish = Callable[..., Event]


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
    """A worker freezes for longer than its lease; another one sends; then the first one goes on."""
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
    """The message of the event finds the lease taken, so the worker with the lease has to look again."""
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


@pytest.mark.parametrize("asked", [webhook_test, delivery_redeliver])
def test_what_a_user_asks_for_during_an_attempt_does_not_wait_for_the_pause(
    made: Made, receiver: Receiver, publish: Publish, monkeypatch: pytest.MonkeyPatch, asked: Any
) -> None:
    older, wanted = publish().sequence, publish().sequence
    Delivery.objects.filter(sequence=wanted).update(state="given_up", tries=MOST_TRIES)
    Webhook.objects.update(failures=8, failing_since=timezone.now())
    receiver.answers = [503, 503, 200]

    def ask_and_post(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(sending, "webhook_post", webhook_post)
        of = {"delivery_id": Delivery.objects.get(sequence=wanted).pk} if asked is delivery_redeliver else {}
        asked(webhook_id=made.id, **of, **BY)
        assert webhook_send(webhook_id=made.id) is None, "the message finds the lease taken"
        return webhook_post(*arguments, **options)

    monkeypatch.setattr(sending, "webhook_post", ask_and_post)
    assert webhook_send(webhook_id=made.id) == 0.0
    publish()
    Delivery.objects.filter(sequence=older).update(due_at=timezone.now())
    assert webhook_send(webhook_id=made.id) == LONGEST_PAUSE
    told = [got.data["data"].get("sequence") for got in receiver.got]
    assert told == [older, wanted if asked is delivery_redeliver else None]
    assert webhook_send(webhook_id=made.id) is None, "it has been tried: the pause holds"


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


def test_messages_follow_up_and_the_sweep_finds_the_rest(
    made: Made, receiver: Receiver, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[Any, ...]] = []
    monkeypatch.setattr(tasks, "task_send", lambda *given, countdown=None: sent.append((*given, countdown)))
    url = receiver.url
    other, _ = webhook_create(name="chat", url=url, kinds=["node.lost"], **BY)
    receiver.answers = [500, 500, 200]
    publish()
    before = timezone.now()
    tasks.send(made.id)
    after = timezone.now()
    ((name, webhook_id, countdown),) = sent
    assert (name, webhook_id) == (WEBHOOK_SEND, made.id)
    due_at = Delivery.objects.get(webhook_id=made.id).due_at
    first_pause = 1.0
    earliest, latest = ((due_at - at).total_seconds() for at in (after, before))
    assert max(earliest, first_pause) <= countdown <= max(latest, first_pause)
    sent.clear()
    tasks.sweep()
    assert sent == [(WEBHOOK_SEND, other.pk, None)]
    Delivery.objects.update(tries=8)
    due_now()
    sent.clear()
    tasks.send(made.id)
    assert sent == [], "later deliveries are left to the sweep"
    due_now()
    tasks.sweep()
    assert sent == [(WEBHOOK_SEND, made.id, None), (WEBHOOK_SEND, other.pk, None)]
    for _, webhook_id, _ in list(sent):
        tasks.send(webhook_id)
    assert set(Delivery.objects.values_list("state", flat=True)) == {"succeeded"}


def test_a_worker_that_is_late_leaves_the_lease_of_the_next(
    made: Made, receiver: Receiver, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third one would send at the same time."""
    publish()
    taken = {"lease": uuid.uuid4(), "free_at": timezone.now() + LEASE}

    def post_late(*arguments: Any, **options: Any) -> Any:
        Webhook.objects.update(**taken)
        return webhook_post(*arguments, **options)

    monkeypatch.setattr(sending, "webhook_post", post_late)
    assert webhook_send(webhook_id=made.id) is None
    assert Webhook.objects.values("lease", "free_at").get() == taken
    assert Delivery.objects.get().state == "succeeded"


def test_a_long_round_hands_over_to_the_next(
    made: Made, receiver: Receiver, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "ROUND", -1.0)
    for _ in range(3):
        publish()
    assert webhook_send(webhook_id=made.id) == 0.0
    assert len(receiver.got) == 1


@pytest.mark.parametrize(("hours", "tries"), [(1, 0), (8, 0), (8, MOST_TRIES - 1)])
def test_nothing_waits_where_the_clock_was_put_back(
    made: Made, receiver: Receiver, publish: Publish, hours: int, tries: int
) -> None:
    """After a pause had begun and an event had been published, or had failed to be delivered."""
    ahead = timezone.now() + timedelta(hours=hours)
    publish()
    Delivery.objects.update(due_at=ahead, tries=tries)
    Webhook.objects.update(free_at=ahead)
    assert webhooks_due(at=timezone.now()) == [made.id]
    webhook_send(webhook_id=made.id)
    assert len(receiver.got) == 1
