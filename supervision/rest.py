"""A small client of the control plane's REST interface, for the start-up and the tests."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit


class RestError(RuntimeError):
    """The server answered with an error, or not at all (`status` 0); `body` is what it said."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        super().__init__(f"{method} {path}: {status or 'no answer'}: {body[:500]}")
        self.status = status
        self.body = body


class Rest:
    """`get("topologies/")` asks `<url>api/v1/topologies/` with the token. One connection per call, so
    that a restarted server makes no difference."""

    def __init__(self, url: str, token: str, *, timeout: float = 10.0) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port or 80
        self._token = token
        self._timeout = timeout

    def get(self, path: str) -> Any:
        return self.call("GET", path)

    def post(self, path: str, body: Any = None, *, key: str = "") -> Any:
        return self.call("POST", path, {} if body is None else body, key=key)

    def patch(self, path: str, body: Any) -> Any:
        return self.call("PATCH", path, body)

    def listing(self, path: str) -> list[dict[str, Any]]:
        """The rows of a list resource: of all its pages, or of the first where the path has a `limit`.

        What is added to the list meanwhile moves rows to later pages: they are told once.
        """
        found: dict[str | int, dict[str, Any]] = {}
        offset = 0
        while True:
            more = f"{'&' if '?' in path else '?'}offset={offset}" if offset else ""
            answer = self.get(path + more)
            if not isinstance(answer, dict):
                return list(answer)  # a list without pages
            rows = answer["results"]
            offset += len(rows)
            for row in rows:
                found.setdefault(_identity(row), row)
            if not rows or not answer["next"] or "limit=" in path:
                return list(found.values())

    def call(self, method: str, path: str, body: Any = None, *, key: str = "") -> Any:
        """The decoded answer. Raises `RestError` for every status above 299 and when there is no answer."""
        # The server is on this host, so the token does not cross a network.
        headers = {
            "Authorization": f"Token {self._token}",
            "Accept": "application/json",
            "X-Forwarded-Proto": "https",
        }
        content: bytes | None = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        if key:
            headers["Idempotency-Key"] = key
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        try:
            connection.request(method, f"/api/v1/{path.lstrip('/')}", content, headers)
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise RestError(method, path, 0, str(error)) from error
        finally:
            connection.close()
        if response.status > 299:
            raise RestError(method, path, response.status, text)
        return json.loads(text) if text else None


def _identity(row: dict[str, Any]) -> str | int:
    """What tells it from the other rows of its list; of rows without a name, all that they say."""
    return next((row[name] for name in ("id", "number", "name") if name in row), repr(row))
