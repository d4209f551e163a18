from __future__ import annotations

from django.apps import AppConfig


class MeasurementsConfig(AppConfig):
    name = "controlplane.measurements"
    label = "measurements"
    default_auto_field = "django.db.models.BigAutoField"
