"""ASGI application: HTTP to Django, websockets to the dashboard's consumers."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.config.settings")
http_application = get_asgi_application()

# Consumers import models, which exist only once Django is set up.
from channels.routing import ProtocolTypeRouter  # noqa: E402

from controlplane.config.garbage import garbage_settle  # noqa: E402
from dashboard.bodies import BoundedBodies  # noqa: E402
from dashboard.routing import websocket_application  # noqa: E402

application = ProtocolTypeRouter(
    {"http": BoundedBodies(http_application), "websocket": websocket_application}
)
garbage_settle()
