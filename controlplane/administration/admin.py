"""Every admin page. Django imports this module when it sets the admin site up."""

from __future__ import annotations

from controlplane.administration import (  # noqa: F401
    accounts,
    alerts,
    checkpoints,
    events,
    incidents,
    measurements,
    nodes,
    topologies,
    webhooks,
)
