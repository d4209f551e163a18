"""What must hold of the environment before the web server may start; `manage.py migrate` and `check` look."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error

VARIABLE = "FORWARDED_ALLOW_IPS"


def proxy_check(app_configs: Sequence[Any] | None, **options: Any) -> list[CheckMessage]:
    """Each proxy is named. From one that is not, a client could choose the address by which it is limited."""
    return [
        Error(
            f"{VARIABLE} believes {name!r}: every address could say which client it stands for",
            hint="Name the addresses from which the TLS proxy connects, separated by commas.",
            id="dashboard.E001",
        )
        for name in map(str.strip, os.environ.get(VARIABLE, "").split(","))
        if _is_everyone(name)
    ]


def _is_everyone(name: str) -> bool:
    if name == "*":
        return True
    try:
        return ipaddress.ip_network(name, strict=False).prefixlen == 0
    except ValueError:
        return False
