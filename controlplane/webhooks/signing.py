"""Signatures as the Standard Webhooks specification has them, so that receivers can use its libraries."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable


def signed_headers(*, delivery: str, timestamp: int, body: bytes, keys: Iterable[bytes]) -> dict[str, str]:
    """The three headers of an attempt: id, time (Unix seconds), and one HMAC-SHA256 per key.

    ``<id>.<timestamp>.<body>`` is signed; the time prevents a replay of a captured request.
    """
    signed = f"{delivery}.{timestamp}.".encode() + body
    signatures = [base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode() for key in keys]
    return {
        "webhook-id": delivery,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }
