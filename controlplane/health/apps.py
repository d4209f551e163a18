from __future__ import annotations

from django.apps import AppConfig


class HealthConfig(AppConfig):
    name = "controlplane.health"
    label = "health"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from controlplane.events.services import events_complete
        from controlplane.health.telling import healths_complete

        events_complete(healths_complete)
