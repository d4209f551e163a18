"""`resurge results`: the rows of a query that count, and its windows."""

from __future__ import annotations

import pytest

from cli.commands import results
from tests.browser.results import outputs_write
from tests.unit.cli.conftest import Resurge
from tests.unit.cli.serving import Server


def test_rows_and_windows(resurge: Resurge, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    query = resurge("queries", "list", "hashtags").json[0]["partition"]
    absent = resurge("results", "hashtags", query)
    assert absent.code == 6
    assert "are not where this server reads them" in absent.err
    unknown = resurge("results", "hashtags", "no[0]")
    assert (unknown.code, unknown.out) == (6, "")
    assert "has no query 'no[0]'" in unknown.err
    outputs_write(server.home, "hashtags", query.partition("[")[0], windows=3)
    monkeypatch.setattr(results, "PAGE", 5)
    answer = resurge("results", "hashtags", query)
    assert (answer.code, answer.err) == (0, "")
    assert [row["count"] for row in answer.json] == [12, 9, 6, 3, 8, 6, 4, 2, 4, 3, 2, 1]
    assert len(resurge("results", "hashtags", query, "--limit", "7").json) == 7
    table = resurge("results", "hashtags", query, "-o", "table")
    assert table.out.split()[:4] == ["WINDOW_END", "KEY", "COUNT", "STATUS"]
    windows = resurge("results", "hashtags", query, "--windows", "--limit", "2").json
    assert [(one["rows"], one["total"], one["key"], one["count"]) for one in windows] == [
        (4, 30, "a", 12),
        (4, 20, "a", 8),
    ]
