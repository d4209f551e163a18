from __future__ import annotations

from django.apps import AppConfig


class LifecycleConfig(AppConfig):
    """Has no models; it is an app for its management commands."""

    name = "controlplane.lifecycle"
    label = "lifecycle"
