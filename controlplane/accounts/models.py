"""Users, roles and tokens under their names here; other applications store them."""

from __future__ import annotations

from django.contrib.auth.models import Group
from django.contrib.auth.models import User as StoredUser
from knox.models import AuthToken


class User(StoredUser):
    class Meta:
        proxy = True


class Role(Group):
    """One of `roles.ROLES`; other groups mean nothing here."""

    class Meta:
        proxy = True


class Token(AuthToken):
    """An API token, shown by its readable prefix instead of its digest."""

    class Meta:
        proxy = True

    def __str__(self) -> str:
        return f"{self.token_key} of {self.user}"
