"""Whose X-Forwarded-For is believed, in the container deployment as it is written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import pytest
import yaml
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from dashboard.checks import proxy_check
from host.environment import ROOT

COMPOSE = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text(encoding="utf-8"))
GATEWAY, NEIGHBOUR, CLIENT = "172.30.57.1", "172.30.57.4", "203.0.113.9"


def by_default(value: str) -> str:
    """As compose puts the defaults in: ``${NAME:-default}``."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)


TRUSTED = by_default(COMPOSE["services"]["resurge"]["environment"]["FORWARDED_ALLOW_IPS"])


async def client_seen(peer: str, forwarded: str) -> str:
    """The client's address behind uvicorn's own middleware, as the web server sets it up."""
    seen: list[str] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["client"][0])

    made: Any = ProxyHeadersMiddleware(application, TRUSTED)
    headers = [(b"x-forwarded-for", forwarded.encode())]
    await made({"type": "http", "scheme": "http", "client": (peer, 1), "headers": headers}, None, None)
    return seen[0]


async def test_the_proxy_is_believed() -> None:
    assert await client_seen(GATEWAY, CLIENT) == CLIENT


async def test_what_a_client_has_put_in_front_is_not() -> None:
    assert await client_seen(GATEWAY, f"127.0.0.1, 198.51.100.1, {CLIENT}") == CLIENT


async def test_another_container_cannot_pretend_to_be_a_client() -> None:
    assert await client_seen(NEIGHBOUR, CLIENT) == NEIGHBOUR


def test_the_gateway_of_the_network_is_the_proxy() -> None:
    (network,) = COMPOSE["networks"]["default"]["ipam"]["config"]
    assert by_default(network["gateway"]) == GATEWAY
    assert by_default(network["subnet"]) == "172.30.57.0/24"
    assert all(port.startswith("127.0.0.1:") for port in COMPOSE["services"]["resurge"]["ports"])


@pytest.mark.parametrize("value", ["*", "127.0.0.1,*", "0.0.0.0/0", "::/0"])
def test_believing_everyone_is_an_error(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", value)
    (found,) = proxy_check(None)
    assert "every address" in found.msg


@pytest.mark.parametrize("value", ["", TRUSTED, "10.0.0.0/8, ::1", "/run/proxy.sock"])
def test_named_proxies_are_none(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", value)
    assert proxy_check(None) == []


def test_a_command_that_checks_does_not_start() -> None:
    asked = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env={**os.environ, "FORWARDED_ALLOW_IPS": "*"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (asked.returncode, "dashboard.E001" in asked.stderr) == (1, True)
