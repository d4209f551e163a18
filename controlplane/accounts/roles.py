"""The three roles. Each is a Django group and includes the rights of those before it."""

from __future__ import annotations

from typing import Any

VIEWER = "viewer"
OPERATOR = "operator"
ADMINISTRATOR = "administrator"
ROLES = (VIEWER, OPERATOR, ADMINISTRATOR)
_RANK = {role: rank for rank, role in enumerate(ROLES)}


def role_of(user: Any) -> str | None:
    """The user's highest role, or None for a user who may see nothing.

    Superusers are administrators. The groups are read once per user object.
    """
    if not user.is_authenticated or not user.is_active:
        return None
    if user.is_superuser:
        return ADMINISTRATOR
    cached: str | None = getattr(user, "_resurge_role", "")
    if cached != "":
        return cached
    names = user.groups.filter(name__in=ROLES).values_list("name", flat=True)
    role = max(names, key=lambda name: _RANK[name], default=None)
    user._resurge_role = role
    return role


def role_held(user: Any) -> str | None:
    """The role a user has been given, in force or not (the account may be inactive).

    Uses the groups that were prefetched with many users.
    """
    if user.is_superuser:
        return ADMINISTRATOR
    names = (group.name for group in user.groups.all() if group.name in _RANK)
    return max(names, key=lambda name: _RANK[name], default=None)


def has_role(user: Any, role: str) -> bool:
    """Whether `user` has at least `role`."""
    own = role_of(user)
    return own is not None and _RANK[own] >= _RANK[role]
