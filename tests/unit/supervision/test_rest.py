"""The client of the start-up reads lists whole: an installation may have more nodes than a page has rows."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from supervision.rest import Rest

PAGE = 100


class Paged(Rest):
    """Answers like the control plane, with pages of a hundred rows."""

    def __init__(self, count: int) -> None:
        super().__init__("http://127.0.0.1:1", "token")
        self.count = count
        self.asked: list[str] = []

    def get(self, path: str) -> Any:
        self.asked.append(path)
        query = parse_qs(urlsplit(path).query)
        start, limit = (int(query.get(name, [str(default)])[0]) for name, default in
                        (("offset", 0), ("limit", PAGE)))  # fmt: skip
        end = min(self.count, start + limit)
        rows = [{"name": f"node-{number}"} for number in range(start, end)]
        return {"count": self.count, "next": "more" if end < self.count else None, "results": rows}


@pytest.mark.parametrize("count", [0, 1, 100, 101, 250])
@pytest.mark.parametrize("path", ["nodes/", "nodes/?ordering=name"])
def test_all_pages_are_read(path: str, count: int) -> None:
    rest = Paged(count)
    assert [row["name"] for row in rest.listing(path)] == [f"node-{number}" for number in range(count)]
    assert len(rest.asked) == max(1, -(-count // PAGE))


class Growing(Paged):
    """Five rows are added at the beginning after each page."""

    def get(self, path: str) -> Any:
        self.count = 250 + 5 * len(self.asked)
        page = super().get(path)
        for row in page["results"]:
            row["name"] = self.count - int(row["name"].removeprefix("node-"))
        return page


def test_a_list_that_grows_meanwhile_has_each_row_once() -> None:
    assert [row["name"] for row in Growing(250).listing("nodes/")] == list(range(250, 0, -1))


def test_a_limit_is_obeyed() -> None:
    rest = Paged(250)
    assert len(rest.listing("nodes/?ordering=name&limit=20")) == 20
    assert rest.asked == ["nodes/?ordering=name&limit=20"]


def test_a_list_without_pages_is_read_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rest, "get", lambda self, path: [{"key": 1}])
    assert Rest("http://127.0.0.1:1", "token").listing("incidents/1/plans/") == [{"key": 1}]
