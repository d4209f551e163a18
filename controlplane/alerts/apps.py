from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class AlertsConfig(AppConfig):
    name = "controlplane.alerts"
    label = "alerts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from controlplane.alerts.defaults import rules_ensure

        post_migrate.connect(rules_ensure, sender=self)
