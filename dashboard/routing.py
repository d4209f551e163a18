from __future__ import annotations

from typing import Any

from channels.routing import URLRouter
from django.urls import path, re_path

from dashboard.consumers import EventConsumer
from dashboard.socket_access import SocketAccess


async def nowhere(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Refuses the handshake at every other address, which would otherwise log an exception."""
    await receive()
    await send({"type": "websocket.close", "code": 4404})


websocket_urlpatterns = [path("ws/v1/", EventConsumer.as_asgi()), re_path(r"", nowhere)]
websocket_application = SocketAccess(URLRouter(websocket_urlpatterns))
