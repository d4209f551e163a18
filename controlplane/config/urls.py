"""Every HTTP route: pages at /, REST at /api/v1/, the admin site and the probes."""

from __future__ import annotations

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

from controlplane.config.probes import MetricsView, healthz, readyz

admin.autodiscover()

handler500 = "controlplane.config.error_pages.server_error"

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", MetricsView.as_view(), name="metrics"),
    path("admin/", admin.site.urls),
    path("api/v1/", include("controlplane.api.urls")),
    # Last: the dashboard is a single-page application that answers for every other path.
    path("", include("dashboard.urls")),
]
