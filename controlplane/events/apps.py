from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.backends.signals import connection_created


class EventsConfig(AppConfig):
    name = "controlplane.events"
    label = "events"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        connection_created.connect(json_known, dispatch_uid="json_known")


def json_known(*, connection: Any, **_: Any) -> None:
    """Our models have JSON columns, so the database writes JSON. Django would ask each connection, in a
    transaction that takes the one write lock, and would take a lock that is held elsewhere for a no."""
    if connection.vendor == "sqlite":
        connection.features.supports_json_field = True
