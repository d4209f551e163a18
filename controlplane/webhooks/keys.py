"""Signing secrets: derived from the installation's secret key, never stored.

The database keeps a random salt and a fingerprint. Neither is of use without the key. The fingerprint tells
whether the key has changed, so that nothing is signed with a wrong secret (docs/decisions/0008).
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass

from django.conf import settings
from django.utils.crypto import constant_time_compare, salted_hmac

PREFIX = "whsec_"
_PURPOSE = "controlplane.webhooks.secret"


class SecretLostError(LookupError):
    """The secret cannot be derived any more: the installation's key has changed."""


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """What the database keeps of a secret."""

    salt: str
    fingerprint: str


def secret_make() -> tuple[StoredSecret, bytes]:
    """A new random secret of 32 bytes, and what the database keeps of it."""
    salt = secrets.token_urlsafe(32)
    secret = _derive(salt, settings.SECRET_KEY)
    return StoredSecret(salt, _fingerprint(secret)), secret


def secret_derive(stored: StoredSecret) -> bytes:
    """The secret that was made with `stored`; raises `SecretLostError`."""
    for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        secret = _derive(stored.salt, key)
        if constant_time_compare(_fingerprint(secret), stored.fingerprint):
            return secret
    raise SecretLostError(
        "the signing secret was made under another RESURGE_SECRET_KEY; "
        "make a new one (rotate-secret) and give it to the receiver"
    )


def secret_text(secret: bytes) -> str:
    """The form in which a receiver gets it: ``whsec_`` and base64."""
    return PREFIX + base64.b64encode(secret).decode()


def _derive(salt: str, key: str) -> bytes:
    return bytes(salted_hmac(_PURPOSE, salt, secret=key, algorithm="sha256").digest())


def _fingerprint(secret: bytes) -> str:
    return hashlib.sha256(secret).hexdigest()[:32]
