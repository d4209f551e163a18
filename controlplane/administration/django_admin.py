from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib.admin import autodiscover
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core import checks


class SiteConfig(SimpleAdminConfig):
    """``django.contrib.admin`` with our `Site` as its site.

    Its pages are imported by the routes that show them and by the checks: a worker starts without them.
    """

    default_site = "controlplane.administration.site.Site"

    def ready(self) -> None:
        checks.register(check_dependencies, checks.Tags.admin)
        checks.register(pages_check, checks.Tags.admin)


def pages_check(app_configs: Sequence[Any] | None, **options: Any) -> list[checks.CheckMessage]:
    """Django's checks of every admin page."""
    autodiscover()
    return list(check_admin_app(app_configs, **options))
