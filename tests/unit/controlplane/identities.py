"""Every kind of caller: each with the session and the token that it would have."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone
from knox.models import AuthToken

UNKNOWN = ("anonymous", "expired", "revoked", "inactive")
"""The server does not know them, or not any more."""

RANK = {**dict.fromkeys(UNKNOWN, 0), "roleless": 1, "viewer": 2, "operator": 3, "administrator": 4}
"""Name to rank. `roleless` is a user without a role."""


@dataclass(frozen=True, slots=True)
class Identity:
    """`page` carries the session, `program` the token; `user` is None for the anonymous."""

    name: str
    page: Client
    program: Client
    token: str
    user: Any

    @property
    def rank(self) -> int:
        return RANK[self.name]


def identity(name: str) -> Identity:
    if name == "anonymous":
        return Identity(name, Client(), Client(), "", None)
    role = name if name in {"viewer", "operator"} else "operator"
    if name == "administrator":
        user = User.objects.create_superuser(name)
    else:
        user = User.objects.create_user(name)
        if name != "roleless":
            user.groups.add(Group.objects.get_or_create(name=role)[0])
    page = Client()
    row, token = AuthToken.objects.create(user=user)
    if name == "expired":
        AuthToken.objects.filter(pk=row.pk).update(expiry=timezone.now() - timedelta(seconds=1))
    elif name == "revoked":
        row.delete()
    else:
        page.force_login(user)
    if name == "inactive":
        User.objects.filter(pk=user.pk).update(is_active=False)
    return Identity(name, page, Client(headers={"Authorization": f"Bearer {token}"}), token, user)
