"""When a webhook is disabled, which secrets sign, and which rows remain of a deleted one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.errors import Conflict, Missing
from controlplane.events.models import AuditEntry, Event
from controlplane.topologies.models import Problem
from controlplane.webhooks.deliveries import (
    deliveries_trim,
    delivery_redeliver,
    webhook_test,
)
from controlplane.webhooks.models import Delivery, Webhook, WebhookSecret
from controlplane.webhooks.schedule import DISABLED_AFTER, MOST_TRIES
from controlplane.webhooks.selectors import webhooks_due
from controlplane.webhooks.sending import webhook_send
from controlplane.webhooks.services import (
    MOST_SECRETS,
    webhook_delete,
    webhook_secret_rotate,
    webhook_update,
)
from tests.unit.controlplane.following import Follower
from tests.unit.controlplane.specs import BY
from tests.unit.controlplane.webhooks.conftest import Made, due_now
from tests.unit.controlplane.webhooks.receiver import Receiver

Publish = Callable[..., Event]


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
    assert (entry.actor, entry.channel, entry.target) == ("system", "system", "pager")
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
    with pytest.raises(Conflict, match="request a new one"):
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


def test_a_rotation_whose_answer_was_lost_is_repeated(
    made: Made, receiver: Receiver, publish: Publish
) -> None:
    """The receiver has the first secret still."""
    webhook_secret_rotate(webhook_id=made.id, **BY)
    _, last = webhook_secret_rotate(webhook_id=made.id, **BY)
    publish()
    webhook_send(webhook_id=made.id)
    assert receiver.got[0].signed_with(made.secret)
    assert receiver.got[0].signed_with(last)
    for _ in range(10):
        _, last = webhook_secret_rotate(webhook_id=made.id, **BY)
    publish()
    webhook_send(webhook_id=made.id)
    assert receiver.got[1].signed_with(last)
    assert WebhookSecret.objects.count() == MOST_SECRETS


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


def test_a_new_secret_is_enough_after_a_change_of_the_key(
    made: Made, receiver: Receiver, publish: Publish, settings: Any
) -> None:
    """As the problem says: rotate, and enable. The secret that is lost would sign for another day."""
    settings.SECRET_KEY = "another one"
    publish()
    webhook_send(webhook_id=made.id)
    _, secret = webhook_secret_rotate(webhook_id=made.id, **BY)
    webhook_update(webhook_id=made.id, changes={"enabled": True}, **BY)
    publish()
    webhook_send(webhook_id=made.id)
    assert made.now().enabled
    assert receiver.got[0].signed_with(secret)


def test_a_test_that_cannot_be_signed_ends(
    made: Made, receiver: Receiver, publish: Publish, settings: Any
) -> None:
    settings.SECRET_KEY = "another one"
    webhook_update(webhook_id=made.id, changes={"enabled": False}, **BY)
    asked = webhook_test(webhook_id=made.id, **BY)
    assert webhook_send(webhook_id=made.id) is None
    asked.refresh_from_db()
    assert asked.state == "given_up"
    assert "rotate-secret" in asked.error
    assert webhooks_due(at=timezone.now()) == []


def test_deleting_leaves_nothing_behind(made: Made, receiver: Receiver, publish: Publish) -> None:
    """Not even deliveries of an event that was published at the same moment."""
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
