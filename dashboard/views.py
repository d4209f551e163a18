"""The page shell. Every page is the same document; the front end draws the page of the address."""

from __future__ import annotations

import re
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.templatetags.static import static
from django.urls import reverse
from django.utils.cache import patch_cache_control
from django.views.decorators.http import require_safe

from controlplane.accounts.roles import VIEWER, has_role, role_of
from controlplane.topologies.choices import PLANNER_CHOICES, Guarantee
from controlplane.topologies.models import Topology
from controlplane.topologies.representation import POLICY_FIELDS
from controlplane.whatif.request import DEFAULT_ALGORITHMS, MOST_ALGORITHMS
from dashboard.assets import app_module, asset_version
from dashboard.middleware import HEADER, POLICY
from domain.simulation.comparison import ALGORITHMS

_TOPOLOGY = re.compile(r"topologies/([A-Za-z0-9_-]+)/")


def boot_data(request: HttpRequest) -> dict[str, Any]:
    """The data that the front end needs before its first request."""
    installation = settings.RESURGE
    user = request.user
    return {
        "user": user.get_username(),
        "role": role_of(user),
        "admin": role_of(user) is not None,
        "faultInjection": installation.fault_injection,
        "theta": installation.theta,
        "heartbeatInterval": installation.heartbeat_interval,
        "sessionTimeout": installation.session_timeout,
        "checkpointInterval": installation.checkpoint_interval,
        "checkpointsKept": installation.checkpoints_kept,
        "maxUtilisation": installation.max_utilisation,
        "replacementDelay": [installation.replacement_delay.low, installation.replacement_delay.high],
        "policyDefaults": policy_defaults(),
        "planners": [name for name, _ in PLANNER_CHOICES],
        "algorithms": list(ALGORITHMS),
        "defaultAlgorithms": list(DEFAULT_ALGORITHMS),
        "mostAlgorithms": MOST_ALGORITHMS,
        "version": asset_version(),
        "layoutWorker": f"{static('dashboard/layout.js')}?v={asset_version()}",
        "csrfToken": get_token(request),
    }


def policy_defaults() -> dict[str, Any]:
    """The policy of a topology until a user sets one; its numbers are the installation's."""
    installation = settings.RESURGE
    numbers = {
        "correlation_threshold": installation.correlation_threshold,
        "correlation_window": installation.correlation_window,
    }
    defaults = {field: Topology._meta.get_field(field).get_default() for field in POLICY_FIELDS}
    return {**defaults, **numbers}


def asked_early(request: HttpRequest, path: str) -> list[str]:
    """The addresses that this page will request, for the browser to preload."""
    early = [reverse("snapshot")]
    topology = _TOPOLOGY.fullmatch(path)
    planned = request.GET.get("tab") == "replication" and not {"budget", "planner"} & set(request.GET)
    if topology and planned and not _is_bounded(topology[1]):
        early.append(reverse("topology-replication-plan", args=[topology[1]]))
    return early


def _is_bounded(topology: str) -> bool:
    """No replica of it can run, so its page asks for no plan."""
    return bool(Topology.objects.filter(name=topology, guarantee=Guarantee.BOUNDED).exists())


@require_safe
@login_required
def shell(request: HttpRequest, path: str = "") -> HttpResponse:
    if not has_role(request.user, VIEWER):
        raise PermissionDenied("You have no role here yet: ask an administrator for one.")
    response = render(
        request,
        "dashboard/shell.html",
        {
            "app": f"dashboard/{app_module()}",
            "boot": boot_data(request),
            "version": asset_version(),
            "early": asked_early(request, path),
        },
    )
    response.headers[HEADER] = POLICY
    # Holds the user's name and a CSRF token: never from a cache.
    patch_cache_control(response, private=True, no_store=True)
    return response
