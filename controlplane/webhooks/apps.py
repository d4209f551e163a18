from __future__ import annotations

from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    name = "controlplane.webhooks"
    label = "webhooks"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from controlplane.events.services import events_subscribe
        from controlplane.webhooks.outbox import deliveries_write

        events_subscribe(deliveries_write)
