"""How Spark's master keeps other users of the host out, as a file that only the product's user can read."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from host.private import write_private

AUTHENTICATE = "spark.authenticate"
SECRET = "spark.authenticate.secret"  # noqa: S105 - a name
_SIGNED_ONLY = "org.apache.spark.ui.JWSFilter"


def daemon_properties(secret: str) -> Mapping[str, str]:
    """For a master: no connection without `secret`, if there is one; no REST server; web pages,
    which cannot be switched off, only for requests signed with a key that no process keeps."""
    return {
        **({AUTHENTICATE: "true", SECRET: secret} if secret else {}),
        "spark.master.rest.enabled": "false",
        "spark.master.ui.decommission.allow.mode": "DENY",
        "spark.ui.killEnabled": "false",
        "spark.ui.filters": _SIGNED_ONLY,
        f"spark.{_SIGNED_ONLY}.param.secretKey": secrets.token_urlsafe(48),
    }


def daemon_properties_write(path: Path, secret: str) -> tuple[str, str]:
    """Write the file; returns the daemon's arguments that name it."""
    lines = "".join(f"{name} {value}\n" for name, value in daemon_properties(secret).items())
    write_private(path, lines.encode())
    return "--properties-file", str(path)
