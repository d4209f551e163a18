"""Proxies of the environment: they are not used for servers of this host, and those that cannot be used are
named."""

from __future__ import annotations

import os
from typing import Any

import pytest

from cli.configuration import Target
from cli.failures import ConfigurationError
from cli.live import stream
from cli.proxies import VARIABLES
from tests.browser.servers import free_port
from tests.unit.cli.conftest import Resurge
from tests.unit.cli.serving import Server

UNUSABLE = {
    "ALL_PROXY": "socks5://127.0.0.1:1",
    "all_proxy": "socks://u:secret@127.0.0.1:1",
    "NO_PROXY": "[::1",
}
ELSEWHERE = "http://resurge.invalid"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower() in VARIABLES]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize("variable", [*UNUSABLE, "HTTP_PROXY", "http_proxy"])
def test_a_server_of_this_host_is_asked_directly(resurge: Resurge, variable: str) -> None:
    proxy = UNUSABLE.get(variable, f"http://127.0.0.1:{free_port()}")
    answer = resurge("whoami", **{variable: proxy})
    assert (answer.code, answer.err) == (0, "")


@pytest.mark.parametrize("variable", UNUSABLE)
def test_settings_that_cannot_be_used_are_named(resurge: Resurge, variable: str) -> None:
    answer = resurge("whoami", RESURGE_URL=ELSEWHERE, **{variable: UNUSABLE[variable]})
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert f"the proxy settings in {variable} cannot be used" in answer.err
    assert "secret" not in answer.err


def test_a_proxy_that_does_not_answer_is_named(resurge: Resurge) -> None:
    proxy = f"http://127.0.0.1:{free_port()}"
    answer = resurge("whoami", RESURGE_URL=ELSEWHERE, HTTP_PROXY=proxy)
    assert (answer.code, answer.err.count("\n")) == (3, 1)
    assert "Is the proxy right that is set in HTTP_PROXY?" in answer.err
    assert "proxy" not in resurge("whoami", RESURGE_URL=proxy, HTTP_PROXY=proxy).err


def test_websockets_of_this_host_use_no_proxy(
    server: Server, monkeypatch: pytest.MonkeyPatch, tokens: dict[str, str]
) -> None:
    for name in ("SOCKS_PROXY", "HTTP_PROXY"):
        monkeypatch.setenv(name, f"socks5h://127.0.0.1:{free_port()}")
    live = stream.EventStream(Target(server.url, tokens["viewer"], "a test"), 0)
    assert live.receive(5.0) == stream.Opened()
    live.close()


def test_websockets_name_a_proxy_that_needs_another_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object, **options: Any) -> None:
        assert options["proxy"] is True
        raise ImportError("python-socks is required")

    monkeypatch.setattr(stream, "connect", connect)
    monkeypatch.setenv("SOCKS_PROXY", "socks5h://127.0.0.1:1")
    with pytest.raises(ConfigurationError, match="SOCKS_PROXY cannot be used"):
        stream.EventStream(Target(ELSEWHERE, "", "a test"), 0).receive(1.0)
