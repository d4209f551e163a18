from __future__ import annotations

from django.contrib.admin.apps import AdminConfig


class SiteConfig(AdminConfig):
    """``django.contrib.admin`` with our `Site` as its site."""

    default_site = "controlplane.administration.site.Site"
