from __future__ import annotations

from django.apps import AppConfig


class CheckpointsConfig(AppConfig):
    name = "controlplane.checkpoints"
    label = "checkpoints"
    default_auto_field = "django.db.models.BigAutoField"
