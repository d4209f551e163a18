"""ASGI application: HTTP to Django, websockets to the dashboard's consumers."""

from __future__ import annotations

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.config.settings")
django.setup(set_prefix=False)

# These import models, which exist only once Django is set up.
from channels.routing import ProtocolTypeRouter  # noqa: E402

from controlplane.config.garbage import garbage_settle  # noqa: E402
from dashboard.bodies import BoundedBodies  # noqa: E402
from dashboard.handler import OneThreadHandler  # noqa: E402
from dashboard.routing import websocket_application  # noqa: E402

application = ProtocolTypeRouter(
    {"http": BoundedBodies(OneThreadHandler()), "websocket": websocket_application}
)
garbage_settle()
