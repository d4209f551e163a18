"""REST calls: one method for each kind. Every failure becomes a sentence and an exit code."""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import httpx

from cli import __version__
from cli.configuration import Target, on_this_host
from cli.failures import (
    CommandError,
    ConfigurationError,
    MissingError,
    RefusedError,
    TimedOutError,
    UnauthorisedError,
    UnreachableError,
)
from cli.proxies import proxy_refused, proxy_variables
from cli.words import plain

USER_AGENT = f"resurge-cli/{__version__}"
"""The audit trail shows this user agent as "Command line"."""

PAGE = 1000
ATTEMPTS = 3
PAUSE = 0.5
LONGEST_RETRY_AFTER = 30.0
AWAY = frozenset({502, 503, 504})

Parameters = Mapping[str, str | int | float | bool | list[str] | None]


class Rest:
    """`get("topologies/")` asks `<url>/api/v1/topologies/`. Times are in seconds. Closes with `close`."""

    def __init__(self, target: Target, *, timeout: float) -> None:
        self.target = target
        self.timeout = timeout
        headers = {"Accept": "application/json", "User-Agent": USER_AGENT}
        if target.token:
            headers["Authorization"] = f"Bearer {target.token}"
        self._proxied = not on_this_host(target.url)
        address = _address(target.url)
        if not self._proxied and address.scheme == "http":
            # As `make up` asks: the token crosses no network, so the server need not redirect to its proxy.
            headers["X-Forwarded-Proto"] = "https"
        try:
            self._http = httpx.Client(
                base_url=address,
                headers=headers,
                timeout=httpx.Timeout(timeout, connect=min(timeout, 5.0)),
                # The system's certificates, so that a private authority has to be installed only once.
                verify=ssl.create_default_context() if address.scheme == "https" else False,
                trust_env=self._proxied,
            )
        except (ImportError, ValueError, httpx.InvalidURL) as error:
            raise proxy_refused(error) from None

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, params: Parameters | None = None) -> Any:
        return self._json(self._call("GET", path, params=params, repeatable=True))

    def tagged(self, path: str) -> tuple[Any, str]:
        """An object and its entity tag: with the tag, an edit applies only to this version."""
        response = self._call("GET", path, repeatable=True)
        return self._json(response), response.headers.get("ETag", "")

    def document(self, path: str, params: Parameters, *, media_type: str) -> bytes:
        """A document other than JSON, as it was sent; its media type must be the given one."""
        response = self._call("GET", path, params=params, headers={"Accept": "*/*"}, repeatable=True)
        if response.headers.get("Content-Type", "").partition(";")[0] != media_type:
            raise self._no_resurge(response.status_code)
        return response.content

    def rows(self, path: str, params: Parameters | None = None, *, most: int = 0) -> list[dict[str, Any]]:
        """The rows of a list resource, page by page; at most `most`, 0 for all.

        What is added to the list meanwhile moves rows to later pages: they are told once.
        """
        found: dict[str | int, dict[str, Any]] = {}
        limit, offset = min(PAGE, most or PAGE), 0
        while True:
            page = self.get(path, {**(params or {}), "limit": limit, "offset": offset})
            rows = page["results"]
            offset += len(rows)
            for row in rows:
                found.setdefault(_identity(row), row)
            if not rows or not page["next"] or 0 < most <= len(found):
                return list(found.values())[: most or None]

    def post(self, path: str, body: Any, *, key: str = "", timeout: float | None = None) -> Any:
        """With an Idempotency-Key the call is repeated when its answer is lost."""
        headers = {"Idempotency-Key": key} if key else {}
        return self._json(
            self._call("POST", path, body=body, headers=headers, repeatable=bool(key), timeout=timeout)
        )

    def patch(self, path: str, body: Any, *, tag: str = "") -> Any:
        """With a tag the object is changed only if it still has that tag. Such a call is not repeated when
        its answer is lost: the first call's change would make the server refuse the second."""
        headers = {"If-Match": tag} if tag else {}
        return self._json(self._call("PATCH", path, body=body, headers=headers, repeatable=not tag))

    def put(self, path: str, body: Any) -> Any:
        """Replace the whole object without a check of its version."""
        return self._json(self._call("PUT", path, body=body, headers={"If-Match": "*"}))

    def delete(self, path: str, reason: str, *, tag: str = "", **told: str) -> None:
        """With a tag the object is deleted only if it still has that tag. told: further parameters."""
        self._call(
            "DELETE", path, params={"reason": reason, **told}, headers={"If-Match": tag} if tag else {}
        )

    def _call(
        self,
        method: str,
        path: str,
        *,
        params: Parameters | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = False,
        timeout: float | None = None,
    ) -> httpx.Response:
        """A successful answer; any other is raised as the fitting error."""
        request = self._http.build_request(
            method,
            path,
            params={name: value for name, value in (params or {}).items() if value is not None},
            json=body,
            headers=headers,
            timeout=httpx.USE_CLIENT_DEFAULT if timeout is None else timeout,
        )
        sent = False
        for attempt in range(1, ATTEMPTS + 1):
            last = attempt == ATTEMPTS
            try:
                response = self._http.send(request)
            except httpx.TransportError as error:
                # A refused connection is reported at once; a broken one may be a restart of the server.
                cut = not isinstance(error, httpx.TimeoutException | httpx.ConnectError) or sent
                sent = sent or cut
                if last or not (repeatable and cut):
                    raise self._not_reached(error, timeout or self.timeout) from error
            else:
                pause = _retry_after(response)
                again = pause is not None or (repeatable and response.status_code in AWAY)
                if last or not again:
                    self._require_success(response)
                    return response
                sent = True
                if pause is not None:
                    time.sleep(pause)
                    continue
            time.sleep(PAUSE * attempt)
        raise AssertionError("the last attempt returns or raises")

    def _not_reached(self, error: httpx.TransportError, timeout: float) -> CommandError:
        where = self.target.url
        if isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout):
            return TimedOutError(
                f"{where} did not answer within {timeout:g} s: try again, or wait longer with --timeout"
            )
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return UnreachableError(
                f"the certificate of {where} is not trusted: check the address, or name the authority's "
                "file in SSL_CERT_FILE"
            )
        what = str(error) or type(error).__name__
        proxies = proxy_variables() if self._proxied else ""
        proxy = f" Is the proxy right that is set in {proxies}?" if proxies else ""
        return UnreachableError(
            f"{where} cannot be reached ({what}): is the server running, and is the address right?{proxy}"
        )

    def _json(self, response: httpx.Response) -> Any:
        try:
            return response.json()
        except ValueError:
            raise self._no_resurge(response.status_code) from None

    def _require_success(self, response: httpx.Response) -> None:
        status = response.status_code
        if 200 <= status < 300:
            return
        problems = _problems(response)
        if 300 <= status < 400:
            elsewhere = response.headers.get("Location", "elsewhere")
            raise UnreachableError(f"{self.target.url} redirects to {elsewhere}: use that address")
        if status == 401:
            raise self._unauthorised()
        if status == 403:
            raise UnauthorisedError(_sentence(problems) or "your role does not permit this")
        if status == 404:
            if not problems:
                raise self._no_resurge(status)
            asked = unquote(str(response.url.path)).partition("/api/v1/")[2].rstrip("/")
            raise MissingError(f"{asked}: {_sentence(problems)}")
        if status >= 500:
            if status == 503 and problems:
                raise UnreachableError(f"{self.target.url} cannot answer now: {_sentence(problems)}")
            said = _sentence(problems) or "its log says why"
            raise UnreachableError(f"{self.target.url} failed to answer ({status}): {said}")
        if len(problems) > 1:
            raise RefusedError(f"refused, {len(problems)} problems:", lines=tuple(problems), status=status)
        raise RefusedError(_sentence(problems) or f"refused ({status})", status=status)

    def _unauthorised(self) -> UnauthorisedError:
        url = self.target.url
        if not self.target.token:
            return UnauthorisedError(f"no token for {url}: run `resurge login {url}`, or set RESURGE_TOKEN")
        return UnauthorisedError(
            f"{url} does not accept the token of {self.target.source}; it may have expired or been revoked: "
            f"run `resurge login {url}` with a new one"
        )

    def _no_resurge(self, status: int) -> UnreachableError:
        return UnreachableError(
            f"{self.target.url} does not answer as a Resurge server does ({status}): check the address"
        )


def _address(url: str) -> httpx.URL:
    """Where REST is. Raises `ConfigurationError` for a host that can have no such name."""
    try:
        address = httpx.URL(f"{url}/api/v1/")
        address.host.encode("idna")
    except (UnicodeError, httpx.InvalidURL) as error:
        raise ConfigurationError(f"{url} is not an address ({error}): check how it is written") from None
    return address


def _identity(row: dict[str, Any]) -> str | int:
    """What tells it from the other rows of its list; of rows without a name, all that they say."""
    return next((row[name] for name in ("id", "number", "name") if name in row), repr(row))


def _problems(response: httpx.Response) -> list[str]:
    """What ``{"errors": [{"path", "message"}]}`` says, one text each; empty for any other body."""
    try:
        return [_problem(one) for one in response.json()["errors"]]
    except (ValueError, LookupError, TypeError, AttributeError):
        return []


def _problem(one: Mapping[str, Any]) -> str:
    parts = (f"line {one['line']}" if one.get("line") else "", str(one.get("path") or ""))
    place = ", ".join(part for part in parts if part)
    return f"{place}: {one['message']}" if place else str(one["message"])


def _sentence(problems: list[str]) -> str:
    return plain("; ".join(problems))


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds that the server asks to wait before a retry; None without such a request or for a long wait."""
    if response.status_code != 429:
        return None
    try:
        seconds = float(response.headers.get("Retry-After", "1"))
    except ValueError:
        return None
    return seconds if 0 <= seconds <= LONGEST_RETRY_AFTER else None
