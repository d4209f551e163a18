"""The server's sentences are shown as they are."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import httpx
import pytest

from cli import client
from cli.commands.incidents import PROPOSALS, STORY
from cli.configuration import Target
from cli.failures import Exit, UnreachableError
from tests.unit.cli.running import ROOT

SENTENCE = "queries O2[0] return. It takes 0.02 of the 0.02 cores that are free."


@pytest.mark.parametrize(
    ("columns", "title", "field"), [(PROPOSALS, "WHY", "reason"), (STORY, "WHAT", "text")]
)
def test_no_number_of_a_sentence_is_changed(columns: Any, title: str, field: str) -> None:
    (column,) = [one for one in columns if one.title == title]
    assert column.value({field: SENTENCE}) == SENTENCE


@pytest.mark.parametrize(("most", "asked"), [(0, 3), (2500, 3), (2499, 3), (1990, 2), (20, 1)])
@pytest.mark.parametrize("name", ["id", "number", "name", "token_key"])
def test_a_list_that_grows_meanwhile_has_each_row_once(
    monkeypatch: pytest.MonkeyPatch, name: str, most: int, asked: int
) -> None:
    """Five rows are added at the beginning after each page."""
    pages: list[dict[str, int]] = []

    def get(path: str, params: dict[str, int]) -> Any:
        newest = 2500 + 5 * len(pages)
        pages.append(params)
        first = newest - params["offset"]
        rows = [
            {name: number, "topology": "t"} for number in range(first, max(0, first - params["limit"]), -1)
        ]
        return {"results": rows, "next": "more" if first - params["limit"] > 0 else None}

    rest = client.Rest(Target(url="http://resurge", token="", source="tests"), timeout=1)
    monkeypatch.setattr(rest, "get", get)
    rows = rest.rows("audit/", most=most)
    assert [row[name] for row in rows] == list(range(2500, 2500 - (most or 2500), -1))
    assert len(pages) == asked


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


def test_a_full_disk_is_named() -> None:
    """Of a report, or of an export in a script."""
    command = [sys.executable, "-m", "cli", "completion", "bash"]
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    assert ended.stderr == "resurge: the output cannot be written: No space left on device\n"
    assert ended.returncode == Exit.USAGE
