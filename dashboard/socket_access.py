"""Who may open a websocket: a page of this server with its session, or a program with a token."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from channels.auth import AuthMiddlewareStack, get_user
from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http.cookie import parse_cookie
from django.utils import timezone
from knox.models import AuthToken
from rest_framework.exceptions import AuthenticationFailed

from controlplane.api.authentication import BearerTokenAuthentication
from dashboard.origins import SameOrigin


class SocketAccess:
    """Puts ``user`` (and for programs ``token``) into the scope of `application`.

    A browser sends its cookies for any page that opens the socket, so the origin must be one of ours. Pages
    cannot send a token, so programs need no origin; a foreign origin is refused for them as well.
    """

    def __init__(self, application: Any) -> None:
        self._pages = SameOrigin(AuthMiddlewareStack(application))
        self._programs = TokenAccess(application)
        self._programs_with_origin = SameOrigin(self._programs)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        headers = {name for name, _ in scope["headers"]}
        chosen: Any = self._pages
        if b"authorization" in headers:
            chosen = self._programs_with_origin if b"origin" in headers else self._programs
        await chosen(scope, receive, send)


class TokenAccess:
    """``Authorization: Bearer <token>``; an invalid token gives the anonymous user."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        header = next(value for name, value in scope["headers"] if name == b"authorization")
        user, token = await _authenticate(header)
        await self._application({**scope, "user": user, "token": token}, receive, send)


@database_sync_to_async
def _authenticate(header: bytes) -> tuple[Any, AuthToken | None]:
    try:
        found = BearerTokenAuthentication().authenticate_header_value(header)
    except AuthenticationFailed:
        found = None
    return found or (AnonymousUser(), None)


async def request_user(scope: dict[str, Any]) -> Any:
    """Whose token or session a request carries, before anything of its body has been read."""
    headers = dict(scope["headers"])
    if b"authorization" in headers:
        user, _ = await _authenticate(headers[b"authorization"])
        if user.is_authenticated:
            return user
    cookies = parse_cookie(headers.get(b"cookie", b"").decode("latin-1"))
    key = cookies.get(settings.SESSION_COOKIE_NAME)
    return AnonymousUser() if key is None else await get_user({"session": _sessions().SessionStore(key)})


def _sessions() -> Any:
    return import_module(settings.SESSION_ENGINE)


async def user_now(scope: dict[str, Any]) -> Any:
    """The present user of an open socket's token or session, anonymous if it has ended. None for a scope that
    has neither."""
    if scope.get("token") is not None:
        return await _token_user(scope["token"].digest)
    session = scope.get("session")
    if session is None:
        return None
    # `type` would be that of the lazy object which stands for the session in the scope.
    return await get_user({"session": session.__class__(session.session_key)})


@database_sync_to_async
def _token_user(digest: str) -> Any:
    token = AuthToken.objects.filter(digest=digest).select_related("user").first()
    if token is None or (token.expiry is not None and token.expiry <= timezone.now()):
        return AnonymousUser()
    return token.user
