"""Users, roles and API tokens."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Unpack

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from knox.models import AuthToken

from controlplane.accounts.roles import ADMINISTRATOR
from controlplane.errors import Conflict, Invalid
from controlplane.events.audit import By, audit_record
from controlplane.events.choices import Channel
from controlplane.events.models import AuditEntry

CREATED = "token.create"
MOST_TOKENS = 100
"""Of a user, that are valid: each has a rate limit of its own."""

MADE_AN_HOUR = 100
"""Tokens of a user, valid or not: each leaves entries in the audit trail, of which the oldest go when there
are too many."""

NAMED = "administrator named by the environment"


@transaction.atomic
def admin_ensure(*, username: str, password: str, channel: Channel, keep: bool = False) -> tuple[Any, bool]:
    """Create the administrator, or set the password of the existing one; returns (user, created). A password
    that changes ends the user's sessions and API tokens. keep: an account that exists stays as it is."""
    username = get_user_model().normalize_username(username)  # as the sign-in page does
    user, created = get_user_model().objects.get_or_create(username=username)
    if keep and not created:
        return user, created
    before = None if created else _standing(user)
    user.is_staff = user.is_superuser = user.is_active = True
    changed = not user.check_password(password)
    if changed:
        user.set_password(password)
    user.save()
    user.groups.add(Group.objects.get_or_create(name=ADMINISTRATOR)[0])
    audit_record(
        actor="system",
        channel=channel,
        action="account.create" if created else "account.update",
        target=username,
        before=before,
        after=_standing(user),
        reason=NAMED,
    )
    if changed and not created:
        tokens_revoke(user=user, actor="system", channel=channel, reason=NAMED)
    return user, created


def _standing(user: Any) -> dict[str, Any]:
    """What the audit trail keeps of a user; of the password only that it was set."""
    return {
        "active": user.is_active,
        "superuser": user.is_superuser,
        "roles": sorted(user.groups.values_list("name", flat=True)),
    }


@transaction.atomic
def token_create(
    *,
    user: Any,
    lifetime: timedelta | None,
    made_with: AuthToken | None = None,
    **by: Unpack[By],
) -> tuple[AuthToken, str]:
    """Make an API token; only its hash is stored, so the text is returned this once.

    made_with: the token that asks for it. Raises `Invalid` for a token that would outlive it, and `Conflict`
    where the user has `MOST_TOKENS` or was given `MADE_AN_HOUR`.
    """
    if made_with is not None and made_with.expiry is not None:
        left = made_with.expiry - timezone.now()
        if lifetime is None or lifetime > left:
            hours = left.total_seconds() / 3600
            raise Invalid(
                "lifetime_hours",
                f"a token cannot outlive the one that creates it, which ends in {hours:.2f} hours",
            )
    get_user_model().objects.select_for_update().get(pk=user.pk)  # two at once would both find room
    valid = Q(expiry=None) | Q(expiry__gt=timezone.now())
    if AuthToken.objects.filter(valid, user=user).count() >= MOST_TOKENS:
        raise Conflict(f"{user.get_username()!r} has {MOST_TOKENS} tokens: revoke one that is not used")
    lately = timezone.now() - timedelta(hours=1)
    made = AuditEntry.objects.filter(at__gt=lately, action=CREATED, target=user.get_username())
    if made.count() >= MADE_AN_HOUR:
        raise Conflict(
            f"{user.get_username()!r} was given {MADE_AN_HOUR} tokens in an hour: use one more often, or wait"
        )
    row, text = AuthToken.objects.create(user=user, expiry=lifetime)
    audit_record(
        action=CREATED,
        target=user.get_username(),
        after={"key": row.token_key, "expiry": row.expiry.isoformat() if row.expiry else None},
        **by,
    )
    return row, text


@transaction.atomic
def token_revoke(*, token: AuthToken, **by: Unpack[By]) -> None:
    audit_record(
        action="token.revoke",
        target=token.user.get_username(),
        before={"key": token.token_key},
        **by,
    )
    token.delete()


def tokens_revoke(*, user: Any, **by: Unpack[By]) -> None:
    """End all of a user's API tokens, one audit entry each."""
    for token in AuthToken.objects.filter(user=user).select_related("user"):
        token_revoke(token=token, **by)
