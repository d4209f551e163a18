from __future__ import annotations

from django.apps import AppConfig


class AdministrationConfig(AppConfig):
    """Bases and templates of the admin pages; comes before Django's admin (see `django_admin`)."""

    name = "controlplane.administration"
    label = "administration"
