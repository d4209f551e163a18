"""The examples of `docs/rest.md`, as a shell and curl send them."""

from __future__ import annotations

import http.server
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "rest.md"
_EXAMPLES = re.compile(r"^    (api (?:.*\\\n)*.*)", re.M)
(_FUNCTION,) = re.findall(r"^    (api\(\) .*)$", DOCUMENT.read_text(encoding="utf-8"), re.M)
EXAMPLES = _EXAMPLES.findall(DOCUMENT.read_text(encoding="utf-8"))

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


@pytest.fixture(scope="module")
def got() -> Iterator[list[Any]]:
    """The address of a server, then each request that it gets: method, address, type of the body."""
    requests: list[Any] = []

    class Recorder(http.server.BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65_536)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            requests.append((self.command, self.path, self.headers.get("Content-Type")))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    requests.append(f"http://127.0.0.1:{server.server_port}/api/v1")
    yield requests
    server.shutdown()


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_sent_as_rest_takes_it(got: list[Any], tmp_path: Path, example: str) -> None:
    (tmp_path / "counts.yaml").write_text("name: counts\n")
    script = f"URL={got[0]}; TOKEN=x; {_FUNCTION}\n{example}"
    ended = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    method, _, kind = got.pop()
    assert kind in (
        (None,) if method in ("GET", "HEAD", "DELETE") else ("application/json", "application/yaml")
    )
