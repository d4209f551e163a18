"""Sending what is due: one worker at a time per webhook, one request at a time, the oldest event first.

An attempt has three steps: a transaction that takes it (and stores the time of the next try), the request,
and a transaction that records the outcome. A worker that dies in between leaves an attempt without an outcome
and a delivery that is due again: delivery is at least once.
"""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from controlplane.webhooks.choices import TEST_KIND, DeliveryState
from controlplane.webhooks.deliveries import deliveries_end, webhook_disable
from controlplane.webhooks.keys import SecretLostError, secret_derive
from controlplane.webhooks.models import Delivery, DeliveryAttempt, Webhook
from controlplane.webhooks.payload import EventGoneError, body_of
from controlplane.webhooks.posting import GONE, Outcome, webhook_post
from controlplane.webhooks.schedule import DISABLED_AFTER, MOST_TRIES, retry_delay
from controlplane.webhooks.selectors import deliveries_due, secrets_stored, user_waits, webhook_free
from controlplane.webhooks.signing import signed_headers

log = structlog.get_logger(__name__)

LEASE = timedelta(seconds=20)
"""Longer than an attempt takes. After a worker's death its webhook gets nothing for this long."""

ROUND = 20.0
"""Seconds after which a round ends even if there is more to send, because tasks must be short."""

LOOKED_AT = 20
"""How many due deliveries are read to find one that can be sent."""

LONGEST_PAUSE = 60.0
"""The longest back-off in seconds after a failure: hanging receivers must not occupy all threads. A success
resets the doubling; a test or a redelivery clears the back-off."""

AGENT = "Resurge-Webhooks/1"
REMEDY = (
    "Rotate its secret, give the new one to the receiver, and enable it. All processes must be started with "
    "the same RESURGE_SECRET_KEY."
)
NO_OUTCOME = "the worker ended before the outcome was recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """An attempt that has been taken and is to be made now."""

    delivery: Delivery
    attempt: DeliveryAttempt
    url: str
    headers: dict[str, str]
    body: bytes


class _Ended(Enum):
    """Why a round ended."""

    NOTHING_DUE = auto()
    FAILED = auto()
    TIME_UP = auto()


def webhook_send(*, webhook_id: int) -> float | None:
    """Send the due deliveries of a webhook until none is left, an attempt fails, or the round's time is over.

    Returns after how many seconds the next round is due; None if there is no need for one or another worker
    holds the lease. A failure ends the round, so a failing receiver gets one request per round.
    """
    until = time.monotonic() + ROUND
    while True:
        lease = uuid.uuid4()
        if not _lease_take(webhook_id, lease):
            return None
        failed = False
        try:
            ended = _round(webhook_id, lease, until)
            failed = ended is _Ended.FAILED
        except SecretLostError as error:
            if not webhook_disable(webhook_id=webhook_id, because=str(error), hint=REMEDY):
                deliveries_end(Webhook(pk=webhook_id), error=str(error))  # tests of one that is disabled
            return None
        finally:
            pause = _lease_end(webhook_id, lease, failed=failed)
        if ended is _Ended.TIME_UP:
            return 0.0
        wait = _next_due(webhook_id)
        if failed:
            return None if wait is None else max(wait, pause)
        if wait is None or wait > 0.0:
            return None
        # A delivery was added since the last look, and its message found the lease taken: look again.


def _round(webhook_id: int, lease: uuid.UUID, until: float) -> _Ended:
    while (sending := _take(webhook_id, lease)) is not None:
        outcome = webhook_post(
            sending.url,
            headers=sending.headers,
            body=sending.body,
            networks=settings.RESURGE.webhook_networks,
        )
        _record(sending, outcome)
        if not outcome.succeeded:
            _judge(webhook_id, outcome)
            return _Ended.FAILED
        if time.monotonic() > until:
            return _Ended.TIME_UP
    return _Ended.NOTHING_DUE


def _lease_take(webhook_id: int, lease: uuid.UUID) -> bool:
    now = timezone.now()
    free = Webhook.objects.filter(webhook_free(now), pk=webhook_id)
    return bool(free.update(lease=lease, free_at=now + LEASE))


@transaction.atomic
def _lease_end(webhook_id: int, lease: uuid.UUID, *, failed: bool) -> float:
    """Give the lease back; returns the seconds for which nothing is sent after a failure."""
    webhook = Webhook.objects.select_for_update(no_key=True).filter(pk=webhook_id).first()
    pause = _pause(webhook) if webhook is not None and failed else 0.0
    free_at = timezone.now() + timedelta(seconds=pause) if pause else None
    Webhook.objects.filter(pk=webhook_id, lease=lease).update(lease=None, free_at=free_at)
    return pause


def _pause(webhook: Webhook) -> float:
    """Seconds for which nothing is sent to a webhook that has just failed: doubling from one to a minute; 0
    while a user waits."""
    if not webhook.failures or user_waits(webhook.pk):
        return 0.0
    return min(2.0 ** min(webhook.failures - 1, 10), LONGEST_PAUSE)


@transaction.atomic
def _take(webhook_id: int, lease: uuid.UUID) -> Sending | None:
    """Count the next attempt, store when the one after it is due, and prepare the request.

    None if nothing is due or the lease is lost. Raises `SecretLostError`.
    """
    now = timezone.now()
    webhook = Webhook.objects.select_for_update(no_key=True).filter(pk=webhook_id, lease=lease).first()
    if webhook is None:
        return None
    webhook.free_at = now + LEASE
    webhook.save(update_fields=["free_at"])
    for delivery in deliveries_due(webhook_id, at=now).select_for_update()[:LOOKED_AT]:
        unfinished = DeliveryAttempt.objects.filter(delivery=delivery, duration=None, error="")
        unfinished.update(error=NO_OUTCOME)
        try:
            if not webhook.enabled and delivery.kind != TEST_KIND:
                raise _UnsendableError("the webhook is disabled")
            if delivery.tries >= _most_tries(delivery):
                raise _UnsendableError(NO_OUTCOME)
            delivery.webhook = webhook
            body = body_of(delivery)
        except (_UnsendableError, EventGoneError) as error:
            _end(delivery, error=str(error), at=now)
            continue
        delivery.attempts += 1
        delivery.tries += 1
        delivery.due_at = now + retry_delay(delivery.tries)
        delivery.save(update_fields=["attempts", "tries", "due_at"])
        attempt = DeliveryAttempt.objects.create(delivery=delivery, number=delivery.attempts, started_at=now)
        headers = signed_headers(
            delivery=str(delivery.pk),
            timestamp=int(now.timestamp()),
            body=body,
            keys=_keys(webhook, now),
        )
        return Sending(
            delivery=delivery,
            attempt=attempt,
            url=webhook.url,
            headers={**headers, "content-type": "application/json", "user-agent": AGENT},
            body=body,
        )
    return None


def _keys(webhook: Webhook, at: datetime) -> list[bytes]:
    """What signs now: the present secret (raises `SecretLostError`), and earlier ones that are not lost."""
    present, *earlier = secrets_stored(webhook, at=at)
    keys = [secret_derive(present)]
    for stored in earlier:
        with suppress(SecretLostError):
            keys.append(secret_derive(stored))
    return keys


@transaction.atomic
def _record(sending: Sending, outcome: Outcome) -> None:
    """Record the outcome of an attempt, also if another worker has taken the delivery over."""
    now = timezone.now()
    # The webhook's row is locked before its deliveries' everywhere: a fixed lock order prevents deadlock.
    health = Webhook.objects.filter(pk=sending.delivery.webhook_id)
    if sending.delivery.kind == TEST_KIND:
        pass  # a test does not count for the webhook's health
    elif outcome.succeeded:
        health.update(failing_since=None, failures=0, succeeded_at=now)
    else:
        began = Coalesce(F("failing_since"), Value(sending.attempt.started_at))
        health.update(failures=F("failures") + 1, failing_since=began)
    DeliveryAttempt.objects.filter(pk=sending.attempt.pk).update(
        duration=outcome.duration, status=outcome.status, error=outcome.error, excerpt=outcome.excerpt
    )
    delivery = Delivery.objects.select_for_update().filter(pk=sending.delivery.pk).first()
    if delivery is None:
        return
    if outcome.succeeded:
        delivery.status, delivery.error = outcome.status, ""
        delivery.state, delivery.ended_at = DeliveryState.SUCCEEDED, now
        delivery.save(update_fields=["status", "error", "state", "ended_at"])
    elif delivery.state == DeliveryState.PENDING and delivery.attempts == sending.attempt.number:
        if delivery.tries >= _most_tries(delivery):
            _end(delivery, error=outcome.error, status=outcome.status, at=now)
        else:
            delivery.status, delivery.error = outcome.status, outcome.error
            if outcome.retry_after is not None:
                delivery.due_at = now + retry_delay(delivery.tries, asked=outcome.retry_after)
            delivery.save(update_fields=["status", "error", "due_at"])


def _judge(webhook_id: int, outcome: Outcome) -> None:
    """Disable a webhook that answered 410 Gone, or that has had no success for a long time."""
    hint = "Read its delivery log, correct the receiver or the URL, test it, then enable it again."
    webhook = Webhook.objects.filter(pk=webhook_id, enabled=True).first()
    if webhook is None or webhook.failing_since is None:
        return
    if outcome.status == GONE:
        webhook_disable(webhook_id=webhook_id, because="the receiver answered 410 Gone", hint=hint)
    elif webhook.failures >= MOST_TRIES and timezone.now() - webhook.failing_since >= DISABLED_AFTER:
        since = f"{webhook.failing_since:%Y-%m-%d %H:%M} UTC"
        because = f"{webhook.failures} attempts have failed since {since} without a success"
        webhook_disable(webhook_id=webhook_id, because=because, hint=hint)


def _end(delivery: Delivery, *, error: str, at: datetime, status: int | None = None) -> None:
    delivery.state, delivery.ended_at = DeliveryState.GIVEN_UP, at
    delivery.error, delivery.status = error, status if status is not None else delivery.status
    delivery.save(update_fields=["state", "ended_at", "error", "status"])
    log.warning("delivery given up", delivery=str(delivery.pk), kind=delivery.kind, error=error)


def _next_due(webhook_id: int) -> float | None:
    """Seconds until a delivery is due, 0 if one is due now; None if none is pending."""
    rows = Delivery.objects.filter(webhook_id=webhook_id, state=DeliveryState.PENDING)
    first = rows.order_by("due_at").values_list("due_at", flat=True).first()
    return None if first is None else max(0.0, (first - timezone.now()).total_seconds())


def _most_tries(delivery: Delivery) -> int:
    return 1 if delivery.kind == TEST_KIND else MOST_TRIES


class _UnsendableError(Exception):
    """A delivery that must not be sent, or whose event is no longer kept."""
