"""Known vulnerabilities of locked requirements, asked of a server as the database is one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from supervision.audit import REQUIREMENTS, UnlockedError, locked, main
from supervision.checks import SKIPPED

HASHES = " \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n"
LOCKED = f"# comment\nsafe==1.0{HASHES}weak==2.1{HASHES}"


class Database(ThreadingHTTPServer):
    """Answers batches of queries; `pages`: name -> identifiers, one page after the other."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.pages: dict[str, list[list[str]]] = {}
        self.asked: list[dict[str, Any]] = []
        self.body: bytes | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answers(BaseHTTPRequestHandler):
    server: Database

    def do_POST(self) -> None:
        queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        self.server.asked += queries
        results: list[dict[str, Any]] = []
        for query in queries:
            pages = self.server.pages.get(query["package"]["name"], [])
            page = int(query.get("page_token", 0))
            result: dict[str, Any] = {}
            if pages:
                result["vulns"] = [{"id": one, "modified": "2026-01-01T00:00:00Z"} for one in pages[page]]
            if page + 1 < len(pages):
                result["next_page_token"] = str(page + 1)
            results.append(result)
        body = self.server.body
        if body is None:
            body = json.dumps({"results": results}).encode()
        self.send_response(200 if self.path == "/v1/querybatch" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Nothing."""


@pytest.fixture
def database() -> Iterator[Database]:
    with Database() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "locked.txt"
    path.write_text(LOCKED)
    return str(path)


def test_each_requirement_is_asked_for(
    database: Database, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--service", database.address, file]) == 0
    asked = [(one["package"]["ecosystem"], one["package"]["name"], one["version"]) for one in database.asked]
    assert asked == [("PyPI", "safe", "1.0"), ("PyPI", "weak", "2.1")]
    assert "2 requirements, 0 with known vulnerabilities" in capsys.readouterr().out


def test_a_known_vulnerability_fails_the_audit(
    database: Database, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    database.pages = {"weak": [["PYSEC-1", "PYSEC-2"], ["GHSA-3"]]}
    assert main(["--service", database.address, file]) == 1
    said = capsys.readouterr().out
    assert "weak 2.1: " in said
    for identifier in ("PYSEC-1", "PYSEC-2", "GHSA-3"):
        assert f"https://osv.dev/vulnerability/{identifier}" in said
    assert "1 with known vulnerabilities" in said


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"results": []}', b'{"results": [1, 2]}'])
def test_an_answer_that_is_none_passes_for_nothing(
    database: Database, file: str, capsys: pytest.CaptureFixture[str], body: bytes
) -> None:
    database.body = body
    assert main(["--service", database.address, file]) == SKIPPED
    assert "skipped, nothing was audited" in capsys.readouterr().out


def test_without_an_answer_nothing_was_audited(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Database() as server:
        address = server.address
    assert main(["--service", address, file]) == SKIPPED
    assert f"skipped, nothing was audited: {address}/v1/querybatch does not answer" in capsys.readouterr().out
    assert main(["--service", f"{address}/elsewhere", file]) == SKIPPED


@pytest.mark.parametrize(
    "text",
    ["loose\n", "loose==1.0\n", f"loose>=1.0{HASHES}", f"loose==1.*,>0{HASHES}", f"-r other.txt{HASHES}"],
)
def test_what_is_not_locked_fails(database: Database, tmp_path: Path, text: str) -> None:
    with pytest.raises(UnlockedError):
        locked(text)
    path = tmp_path / "loose.txt"
    path.write_text(LOCKED + text)
    assert main(["--service", database.address, str(path)]) == 1
    assert not database.asked


def test_all_of_ours_are_locked() -> None:
    for path in REQUIREMENTS.glob("*.txt"):
        assert len(locked(path.read_text())) > 1, path
