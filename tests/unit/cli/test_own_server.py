"""The server of this host is asked without its proxy, also where it takes HTTPS only."""

from __future__ import annotations

import httpx
import pytest

from cli.client import Rest
from cli.configuration import Target


@pytest.mark.parametrize(
    ("url", "scheme"),
    [
        ("http://127.0.0.1:8000", "https"),
        ("http://localhost", "https"),
        ("http://resurge.invalid", None),
        ("https://127.0.0.1", None),
    ],
)
def test_a_server_of_this_host_does_not_redirect_to_its_proxy(
    monkeypatch: pytest.MonkeyPatch, url: str, scheme: str | None
) -> None:
    said: list[str | None] = []

    def answer(_: object, request: httpx.Request) -> httpx.Response:
        said.append(request.headers.get("X-Forwarded-Proto"))
        return httpx.Response(200, json={})

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", answer)
    Rest(Target(url, "token", "a test"), timeout=1).get("me/")
    assert said == [scheme]
