"""Proxies that the environment names: libraries use them for every server that is not on this host."""

from __future__ import annotations

import os

from cli.failures import ConfigurationError

VARIABLES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy", "socks_proxy"})


def proxy_variables() -> str:
    """The names of those that are set, as they are written: `HTTPS_PROXY, no_proxy`."""
    return ", ".join(
        sorted(name for name, value in os.environ.items() if value and name.lower() in VARIABLES)
    )


def proxy_refused(error: Exception) -> ConfigurationError:
    return ConfigurationError(
        f"the proxy settings in {proxy_variables()} cannot be used ({error}): correct them, or unset them"
    )
