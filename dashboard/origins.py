"""The origin of a websocket: a page of this server, with the scheme, host and port the request came to."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import validate_host

Origin = tuple[str, str, int]
_PORTS = {"http": 80, "https": 443}
_SCHEMES = {"ws": "http", "wss": "https"}


class SameOrigin:
    """Refuses handshakes whose one ``Origin`` is not that of the request, as Django does for forms.

    Browsers send the cookies of a host to all of its ports, so the host alone would let in a page of any
    other server on it, or one that was changed on its way over plain HTTP.
    """

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        given = [value for name, value in scope["headers"] if name == b"origin"]
        own = _own(scope)
        if own is not None and len(given) == 1 and _origin(given[0]) == own:
            await self._application(scope, receive, send)
        else:
            await WebsocketDenier()(scope, receive, send)


def _own(scope: dict[str, Any]) -> Origin | None:
    """Where the request came to, by its ``Host``; None for a host that is not one of this server's names."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    scheme = _SCHEMES.get(scope.get("scheme", "ws"))
    if len(hosts) != 1 or scheme is None:
        return None
    own = _origin(f"{scheme}://".encode() + hosts[0])
    return own if own is not None and validate_host(own[1], settings.ALLOWED_HOSTS) else None


def _origin(value: bytes) -> Origin | None:
    """None for what is no origin of a page, such as ``null``."""
    try:
        parts = urlsplit(value.decode("ascii").lower())
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc:
        return None
    if parts.path or parts.query or parts.fragment:
        return None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname.removesuffix(".")
    return parts.scheme, host, _PORTS[parts.scheme] if port is None else port
