"""Creating and changing webhooks, and their secrets (write side).

Changes are made under the lock that numbers events (`numbering_lock`): an event is published before or after
a change, never during it, so a disabled webhook gets no later event.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, Unpack

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from controlplane.errors import Conflict, Invalid
from controlplane.events.audit import By, audit_record
from controlplane.events.operations import reason_require
from controlplane.events.services import numbering_lock
from controlplane.preconditions import ANYTHING, Expected
from controlplane.topologies.models import Topology
from controlplane.webhooks.addresses import url_require, url_shown
from controlplane.webhooks.choices import KINDS
from controlplane.webhooks.deliveries import deliveries_end
from controlplane.webhooks.keys import secret_make, secret_text
from controlplane.webhooks.models import Webhook, WebhookSecret
from controlplane.webhooks.selectors import webhook_get
from controlplane.webhooks.tags import WEBHOOK_FIELDS, webhook_tag
from domain.topology.spec import TOPOLOGY_NAME_PATTERN

MOST_WEBHOOKS = 100
MOST_SECRETS = 5
"""That sign at a time: each makes the header longer."""
OVERLAP = timedelta(hours=24)
LONGEST_OVERLAP = timedelta(days=30)


@transaction.atomic
def webhook_create(
    *,
    name: str,
    url: str,
    kinds: Collection[str],
    topologies: Collection[str] = (),
    enabled: bool = True,
    **by: Unpack[By],
) -> tuple[Webhook, str]:
    """Set up a webhook; returns it and its secret, which cannot be read again.

    topologies: names; empty: all. Raises `Invalid` with the field's name, or `Conflict`.
    """
    reason_require(by["reason"])
    if not re.fullmatch(TOPOLOGY_NAME_PATTERN, name):
        raise Invalid("name", f"{name!r}: use small letters, digits and -, and begin with a letter")
    given = {"url": url, "kinds": kinds, "topologies": topologies, "enabled": enabled}
    accepted = {field: _accept(field, value) for field, value in given.items()}
    numbering_lock()
    if Webhook.objects.filter(name=name).exists():
        raise Conflict(f"name: there is a webhook {name!r} already; update it or choose another name")
    if Webhook.objects.count() >= MOST_WEBHOOKS:
        raise Conflict(f"there are {MOST_WEBHOOKS} webhooks already; delete an unused one")
    webhook = Webhook.objects.create(name=name, created_by=by["actor"], **accepted)
    secret = _secret_add(webhook)
    audit_record(
        action="webhook.create",
        target=name,
        after=_shown(webhook),
        **by,
    )
    return webhook, secret


@transaction.atomic
def webhook_update(
    *,
    webhook_id: int,
    changes: Mapping[str, Any],
    expected: Expected = ANYTHING,
    **by: Unpack[By],
) -> Webhook:
    """Change some of `WEBHOOK_FIELDS`. Disabling gives up pending deliveries; enabling resets the failures.

    Raises `Missing`, `Invalid` with the field's name, or `Stale` if it has changed.
    """
    reason_require(by["reason"])
    accepted = {field: _accept(field, value) for field, value in changes.items()}
    numbering_lock()
    webhook = webhook_get(webhook_id, lock=True)
    expected.require(webhook_tag(webhook), f"webhook {webhook.name}")
    before = _shown(webhook)
    changed = {field: value for field, value in accepted.items() if getattr(webhook, field) != value}
    if not changed:
        return webhook
    for field, value in changed.items():
        setattr(webhook, field, value)
    if changed.get("enabled"):
        webhook.disabled_because, webhook.failing_since, webhook.failures = "", None, 0
    webhook.save(update_fields=[*WEBHOOK_FIELDS, *_HEALTH, "updated_at"])
    if changed.get("enabled") is False:
        deliveries_end(webhook, error=f"{by['actor']} disabled the webhook")
    after = _shown(webhook)
    audit_record(
        action="webhook.update",
        target=webhook.name,
        before={field: before[field] for field in changed},
        after={field: after[field] for field in changed},
        **by,
    )
    return webhook


@transaction.atomic
def webhook_delete(*, webhook_id: int, expected: Expected = ANYTHING, **by: Unpack[By]) -> None:
    """Remove a webhook; its delivery log is trimmed later. Raises `Missing`, or `Stale` if it has changed."""
    reason_require(by["reason"])
    webhook = webhook_get(webhook_id, lock=True)
    expected.require(webhook_tag(webhook), f"webhook {webhook.name}")
    audit_record(
        action="webhook.delete",
        target=webhook.name,
        before=_shown(webhook),
        **by,
    )
    webhook.delete()


@transaction.atomic
def webhook_secret_rotate(
    *, webhook_id: int, overlap: timedelta = OVERLAP, **by: Unpack[By]
) -> tuple[Webhook, str]:
    """Make a new secret. The present one also signs for `overlap`, and earlier ones until their own end or
    that, if it is sooner: the receiver can switch without refusing a delivery, also where the answer to a
    rotation was lost. Returns the new one, which cannot be read again. Raises `Missing`."""
    reason_require(by["reason"])
    if not timedelta(0) <= overlap <= LONGEST_OVERLAP:
        raise Invalid("overlap_hours", f"must be from 0 to {LONGEST_OVERLAP.days * 24} hours")
    webhook = webhook_get(webhook_id, lock=True)
    until = timezone.now() + overlap
    webhook.secrets.filter(Q(expires_at=None) | Q(expires_at__gt=until)).update(expires_at=until)
    secret = _secret_add(webhook)
    signing = webhook.secrets.order_by("-pk").values_list("pk", flat=True)[:MOST_SECRETS]
    webhook.secrets.exclude(pk__in=list(signing)).delete()
    audit_record(
        action="webhook.secret",
        target=webhook.name,
        after={"overlap_hours": overlap.total_seconds() / 3600},
        **by,
    )
    return webhook, secret


_HEALTH = ("disabled_because", "failing_since", "failures")


def _secret_add(webhook: Webhook) -> str:
    stored, secret = secret_make()
    WebhookSecret.objects.create(webhook=webhook, salt=stored.salt, fingerprint=stored.fingerprint)
    return secret_text(secret)


def _shown(webhook: Webhook) -> dict[str, Any]:
    """For the audit trail, which all viewers may read: the URL's path only as a digest."""
    digest = hashlib.sha256(webhook.url.encode()).hexdigest()[:8]
    return {
        "url": f"{url_shown(webhook.url)} [{digest}]",
        "kinds": webhook.kinds,
        "topologies": webhook.topologies,
        "enabled": webhook.enabled,
    }


def _accept(field: str, value: Any) -> Any:
    """The value as it is stored; raises `Invalid` where the field may not have it."""
    match field:
        case "url":
            if not isinstance(value, str):
                raise Invalid("url", f"{value!r} is not text")
            url_require(value, settings.RESURGE.webhook_networks)
            return value
        case "kinds":
            kinds = _names(field, value)
            if not kinds:
                raise Invalid("kinds", "name at least one kind of event")
            if unknown := sorted(set(kinds) - KINDS):
                raise Invalid(
                    "kinds", f"no such kind: {', '.join(unknown)}; the kinds are {', '.join(sorted(KINDS))}"
                )
            return kinds
        case "topologies":
            topologies = _names(field, value)
            known_names = Topology.objects.filter(name__in=topologies).values_list("name", flat=True)
            if missing := sorted(set(topologies) - set(known_names)):
                raise Invalid("topologies", f"there is no topology {', '.join(map(repr, missing))}")
            return topologies
        case "enabled":
            if not isinstance(value, bool):
                raise Invalid("enabled", f"{value!r} is neither true nor false")
            return value
        case _:
            raise Invalid(
                field,
                f"a webhook has no field {field!r} that can be changed; the fields are "
                f"{', '.join(WEBHOOK_FIELDS)}",
            )


def _names(field: str, value: Any) -> list[str]:
    if isinstance(value, str) or not all(isinstance(name, str) for name in value):
        raise Invalid(field, "must be a list of names")
    return sorted(set(value))
