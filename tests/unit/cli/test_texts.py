"""The server's sentences are shown as they are."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from cli import client
from cli.commands.incidents import PROPOSALS, STORY
from cli.configuration import Target
from cli.failures import UnreachableError

SENTENCE = "queries O2[0] return. It takes 0.02 of the 0.02 cores that are free."


@pytest.mark.parametrize(
    ("columns", "title", "field"), [(PROPOSALS, "WHY", "reason"), (STORY, "WHAT", "text")]
)
def test_no_number_of_a_sentence_is_changed(columns: Any, title: str, field: str) -> None:
    (column,) = [one for one in columns if one.title == title]
    assert column.value({field: SENTENCE}) == SENTENCE


def test_a_busy_server_is_asked_again_and_then_named_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.method)
        return httpx.Response(503, json={"errors": [{"path": "", "message": "too many questions"}]})

    monkeypatch.setattr(client, "PAUSE", 0.0)
    rest = client.Rest(Target(url="http://resurge", token="", source="tests"), timeout=1)
    rest._http = httpx.Client(base_url="http://resurge", transport=httpx.MockTransport(answer))
    with pytest.raises(UnreachableError, match="resurge cannot answer now: too many questions"):
        rest.get("topologies/")
    with pytest.raises(UnreachableError, match="cannot answer now"):
        rest.post("what-if/", {})
    assert asked == ["GET"] * client.ATTEMPTS + ["POST"]
