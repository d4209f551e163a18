"""Registers the app, which has no models: it reads files and compares."""

from __future__ import annotations

from django.apps import AppConfig


class VerificationConfig(AppConfig):
    name = "controlplane.verification"
    label = "verification"
    default_auto_field = "django.db.models.BigAutoField"
