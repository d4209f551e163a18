"""Token authentication: knox tokens, stored hashed, under either usual header prefix."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from knox.auth import TokenAuthentication
from rest_framework.authentication import get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request


class BearerTokenAuthentication(TokenAuthentication):
    """``Authorization: Token <token>`` or ``Authorization: Bearer <token>``."""

    def authenticate(self, request: Request) -> Any:
        return self.authenticate_header_value(get_authorization_header(request))

    def authenticate_header_value(self, header: bytes) -> Any:
        """``(user, token)``, or None for another scheme. Raises `AuthenticationFailed`."""
        prefix, _, token = header.partition(b" ")
        if prefix.lower() not in {b"token", b"bearer"}:
            return None
        token = token.strip()
        if not token or not token.isascii() or b" " in token:
            raise AuthenticationFailed("The Authorization header holds no usable token.")
        return self.authenticate_credentials(token)


class BearerTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = BearerTokenAuthentication
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "A token made with `POST /api/v1/tokens/` or `manage.py ensure_admin`.",
        }
