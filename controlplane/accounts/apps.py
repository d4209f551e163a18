from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db import connections
from django.db.models.signals import post_migrate


class AccountsConfig(AppConfig):
    name = "controlplane.accounts"
    label = "accounts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        post_migrate.connect(roles_ensure, sender=self)


def roles_ensure(*, using: str, **_: Any) -> None:
    """Every role has its group, also after `manage.py flush`."""
    from django.contrib.auth.models import Group

    from controlplane.accounts.roles import ROLES

    if Group._meta.db_table in connections[using].introspection.table_names():
        for role in ROLES:
            Group.objects.using(using).get_or_create(name=role)
