"""Pages. The front end knows the same addresses (frontend/src/lib/router.svelte.ts)."""

from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import path, re_path

from dashboard.signing_in import SignIn
from dashboard.views import shell

PAGES = (
    "topologies",
    "nodes",
    "incidents",
    "what-if",
    "checkpoints",
    "alerts",
    "audit",
    "faults",
    "settings",
    "editor",
)

urlpatterns = [
    path("login/", SignIn.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("", shell, name="fleet"),
    re_path(rf"^(?P<path>(?:{'|'.join(PAGES)})(?:/.*)?)$", shell, name="page"),
]
