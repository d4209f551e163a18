"""Users, their roles and passwords (write side). The first administrator and tokens are in `services`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction

from controlplane.accounts.roles import ADMINISTRATOR, ROLES, role_held
from controlplane.accounts.services import tokens_revoke
from controlplane.errors import Conflict, Invalid
from controlplane.events.audit import By, audit_record
from controlplane.events.operations import reason_require
from controlplane.events.services import numbering_lock
from controlplane.preconditions import ANYTHING, Expected, entity_tag
from domain.topology import FieldProblem

SYSTEM = "system"
"""The actor of automatic changes in the audit trail; no user may have this name."""

USER_FIELDS = ("role", "active")
"""Fields of a user that may be changed, besides the password."""


@transaction.atomic
def user_create(*, username: str, password: str, role: str | None, **by: Unpack[By]) -> Any:
    """Create a user with a role (None: may sign in and sees nothing).

    Raises `Invalid` with the field's name, or `Conflict` for a name that is taken in any case of letters.
    """
    reason_require(by["reason"])
    username = get_user_model().normalize_username(username)  # as the sign-in page does
    user = get_user_model()(username=username)
    _role_require(role)
    _validate("username", lambda: user.clean_fields(exclude=["password"]))
    if username.lower() == SYSTEM:
        raise Invalid("username", f"{username!r} is reserved: the audit trail uses it for the system")
    numbering_lock()  # two at once would both find the name free
    if get_user_model().objects.filter(username__iexact=username).exists():
        raise Conflict(f"there is a user {username!r} already; choose another name")
    _validate("password", lambda: validate_password(password, user))
    user.set_password(password)
    user.save()
    _role_set(user, role)
    audit_record(
        action="account.create",
        target=username,
        after=_shown(user),
        **by,
    )
    return user


@transaction.atomic
def user_update(
    *,
    user_id: int,
    changes: Mapping[str, Any],
    expected: Expected = ANYTHING,
    **by: Unpack[By],
) -> Any:
    """Change a user's `role` (or None) or whether the account is `active`.

    An inactive user cannot sign in, and the user's tokens do not work. Raises `Invalid`, `Conflict` where no
    active administrator would be left, or `Stale` if it has changed.
    """
    reason_require(by["reason"])
    for field in changes:
        if field not in USER_FIELDS:
            raise Invalid(
                field,
                f"a user has no field {field!r} that can be changed; the fields are {', '.join(USER_FIELDS)}",
            )
    # All of them, so that two administrators cannot demote each other at the same moment.
    users = {
        user.pk: user
        for user in get_user_model().objects.select_for_update().order_by("pk").prefetch_related("groups")
    }
    user = users[user_id]
    expected.require(user_tag(user), f"user {user.get_username()}")
    before = _shown(user)
    after = {**before, **changes}
    _role_require(after["role"])
    if after == before:
        return user
    others = [one for one in users.values() if one.pk != user.pk and one.is_active]
    remains = after["active"] and after["role"] == ADMINISTRATOR
    if not remains and not any(role_held(one) == ADMINISTRATOR for one in others):
        raise Conflict(
            f"{user.get_username()!r} is the only active administrator: give another user that role first"
        )
    user.is_active = bool(after["active"])
    _role_set(user, after["role"])
    changed = [field for field in USER_FIELDS if before[field] != after[field]]
    audit_record(
        action="account.update",
        target=user.get_username(),
        before={field: before[field] for field in changed},
        after={field: after[field] for field in changed},
        **by,
    )
    return user


@transaction.atomic
def user_password_set(*, user_id: int, password: str, tokens_end: bool, **by: Unpack[By]) -> Any:
    """Set a password, which ends the user's other sessions; with `tokens_end` the API tokens as well, as
    they must where the account may be in other hands. Raises `Invalid` (path ``password``)."""
    reason_require(by["reason"])
    user = get_user_model().objects.select_for_update().get(pk=user_id)
    _validate("password", lambda: validate_password(password, user))
    user.set_password(password)
    user.save(update_fields=["password"])
    audit_record(action="account.password", target=user.get_username(), **by)
    if tokens_end:
        tokens_revoke(user=user, **by)
    return user


def user_tag(user: Any) -> str:
    """Of what can be edited, besides the password."""
    return entity_tag("user", user.pk, _shown(user))


def _role_set(user: Any, role: str | None) -> None:
    """Give exactly this role. Django's own flags could give more rights, so they are set to match it."""
    if role != ADMINISTRATOR:
        user.is_superuser = user.is_staff = False
    user.save(update_fields=["is_active", "is_superuser", "is_staff"])
    user.groups.remove(*Group.objects.filter(name__in=ROLES).exclude(name=role or ""))
    if role is not None:
        user.groups.add(Group.objects.get_or_create(name=role)[0])


def _role_require(role: str | None) -> None:
    if role is not None and role not in ROLES:
        raise Invalid("role", f"{role!r} is not one of {', '.join(ROLES)}")


def _shown(user: Any) -> dict[str, Any]:
    return {"role": role_held(user), "active": user.is_active}


def _validate(field: str, check: Callable[[], None]) -> None:
    """Run one of Django's checks; what it finds is raised as `Invalid` under `field`."""
    try:
        check()
    except ValidationError as error:
        raise Invalid.from_problems(FieldProblem(field, message) for message in error.messages) from None
