"""A server of this host that takes HTTPS only, and one of an earlier version."""

from __future__ import annotations

import httpx
import pytest

from cli.client import Rest
from cli.configuration import Target
from cli.main import main


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


def test_a_server_of_an_earlier_version_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = {"count": 1, "next": None, "previous": None, "results": [{"name": "hashtags"}]}
    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", lambda *_: httpx.Response(200, json=page))
    monkeypatch.setenv("RESURGE_URL", "http://127.0.0.1:8000")
    monkeypatch.setenv("RESURGE_TOKEN", "token")
    assert main(["topologies", "list", "-o", "table"]) == 3
    assert "without 'health': it may be of an earlier version" in (said := capsys.readouterr().err)
    assert said.count("\n") == 1
    assert main(["topologies", "list", "-o", "json"]) == 0
