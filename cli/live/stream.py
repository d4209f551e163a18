"""The websocket: numbered events after a given one. It reconnects by itself.

`EventStream.receive` is called in a loop and returns one signal at a time. A gap in the numbers is a `Gap`: a
caller that keeps a state loads it again and calls `restart`.
"""

from __future__ import annotations

import json
import random
import ssl
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

from cli.client import USER_AGENT
from cli.configuration import Target, on_this_host
from cli.failures import RefusedError, UnauthorisedError
from cli.proxies import proxy_refused
from cli.words import plain

FIRST_DELAY, LONGEST_DELAY = 0.5, 10.0
SILENCE = 15.0
"""The server pings each 5 s: after three silent periods the connection counts as lost."""

OPENING = 5.0
LARGEST_MESSAGE = 64 * 1024 * 1024
UNAUTHENTICATED, FORBIDDEN = 4401, 4403


@dataclass(frozen=True, slots=True)
class Opened:
    """Connected and subscribed."""


@dataclass(frozen=True, slots=True)
class Events:
    """The events up to `sequence`; those of other topologies than asked for are left out."""

    events: list[dict[str, Any]]
    sequence: int


@dataclass(frozen=True, slots=True)
class Gap:
    """The server no longer sends the missing events: a snapshot is needed."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection is gone; it is tried again after `delay` seconds."""

    why: str
    delay: float


Signal = Opened | Events | Gap | Lost


class EventStream:
    """Numbered events after `sequence`. For one thread; `receive` blocks for its timeout at most."""

    def __init__(self, target: Target, sequence: int, *, topologies: list[str] | None = None) -> None:
        self.sequence = sequence
        self._target = target
        self._topologies = topologies
        self._socket: ClientConnection | None = None
        self._opened = ExitStack()
        self._attempt = 0
        self._retry_at = 0.0
        self._heard = 0.0

    @property
    def live(self) -> bool:
        return self._socket is not None

    def receive(self, timeout: float) -> Signal | None:
        """The next signal within `timeout` seconds, or None.

        Raises `UnauthorisedError` once the server refuses, and `RefusedError` for a message it does not know.
        """
        if self._socket is None:
            wait = self._retry_at - time.monotonic()
            if wait > 0:
                time.sleep(min(wait, timeout))
                return None
            return self._open()
        try:
            text = self._socket.recv(timeout=timeout)
        except TimeoutError:
            if time.monotonic() - self._heard > SILENCE:
                return self._lose(f"the server has sent nothing for {SILENCE:g} s")
            return None
        except ConnectionClosed as error:
            code = error.rcvd.code if error.rcvd is not None else 0
            if code in (UNAUTHENTICATED, FORBIDDEN):
                raise self._refused() from None
            return self._lose("the server closed the connection" if code else "the connection was cut")
        except (OSError, EOFError) as error:
            return self._lose(str(error) or type(error).__name__)
        self._heard = time.monotonic()
        self._attempt = 0
        return self._read(text)

    def restart(self, sequence: int) -> None:
        """Go on after `sequence`, which a snapshot has just given."""
        self.sequence = sequence
        if self._socket is not None:
            try:
                self._subscribe(self._socket)
            except (ConnectionClosed, OSError):
                self._lose("the connection was cut")

    def close(self) -> None:
        self._socket = None
        with suppress(Exception):  # the connection may be in any state
            self._opened.close()

    def _open(self) -> Signal:
        parts = urlsplit(self._target.url)
        secure = parts.scheme == "https"
        address = f"{'wss' if secure else 'ws'}://{parts.netloc}{parts.path}/ws/v1/"
        try:
            connecting = connect(
                address,
                additional_headers={"Authorization": f"Bearer {self._target.token}"},
                user_agent_header=USER_AGENT,
                ssl=ssl.create_default_context() if secure else None,
                proxy=None if on_this_host(self._target.url) else True,
                open_timeout=OPENING,
                close_timeout=1.0,
                max_size=LARGEST_MESSAGE,
            )
            socket = self._opened.enter_context(connecting)
        except InvalidStatus as error:
            status = error.response.status_code
            if status in (401, 403):
                raise UnauthorisedError(
                    f"{self._target.url} refuses websockets ({status}): check the address, and any "
                    "proxy in between"
                ) from None
            return self._lose(f"the server answered {status}")
        except ImportError as error:  # of the library for a SOCKS proxy
            raise proxy_refused(error) from None
        except (OSError, EOFError, WebSocketException) as error:
            return self._lose(str(error) or type(error).__name__)
        self._socket = socket
        self._heard = time.monotonic()
        try:
            self._subscribe(socket)
        except (ConnectionClosed, OSError):
            return Opened()  # reading says why it was closed
        return Opened()

    def _subscribe(self, socket: ClientConnection) -> None:
        socket.send(json.dumps({"type": "subscribe", "after": self.sequence, "topologies": self._topologies}))

    def _read(self, text: str | bytes) -> Signal | None:
        try:
            message = json.loads(text)
            kind = message["type"]
            if kind == "events":
                return self._advance(int(message["after"]), int(message["sequence"]), message["events"])
        except (ValueError, LookupError, TypeError):
            return self._lose("the server sent text that is not a message")
        if kind == "resync":
            return Gap()
        if kind == "error":
            raise RefusedError(
                f"{self._target.url} refused the subscription: {plain(message.get('error', ''))}"
            )
        return None

    def _advance(self, after: int, sequence: int, events: list[dict[str, Any]]) -> Signal | None:
        if after > self.sequence:
            return Gap()
        fresh = [event for event in events if event["sequence"] > self.sequence]
        if sequence <= self.sequence:
            return None
        self.sequence = sequence
        return Events(fresh, sequence)

    def _lose(self, why: str) -> Lost:
        self.close()
        ceiling = min(LONGEST_DELAY, FIRST_DELAY * 2**self._attempt)
        self._attempt = min(self._attempt + 1, 10)
        delay = ceiling * (0.6 + 0.4 * random.random())  # noqa: S311 - spreads clients, keeps no secret
        self._retry_at = time.monotonic() + delay
        return Lost(plain(why), delay)

    def _refused(self) -> UnauthorisedError:
        url = self._target.url
        if not self._target.token:
            return UnauthorisedError(f"no token for {url}: run `resurge login {url}`, or set RESURGE_TOKEN")
        return UnauthorisedError(
            f"{url} does not let this token listen: it may have expired, or have lost its role"
        )
