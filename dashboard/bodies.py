"""Bodies of requests: bounded before anything keeps them, and read only of those who may send one.

Django's handler takes the whole body, onto the disk if it is long, before any view has asked who sends it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.db import DatabaseError
from django.urls import reverse

from controlplane.api.parsers import LONGEST
from dashboard.middleware import HEADER, POLICY, REST
from dashboard.socket_access import request_user

LONGEST_ANONYMOUS = 10_000
"""Bytes of what may be sent without an account: a name, a password and a page to go to."""

_LENGTH_HEADERS = (b"content-length", b"transfer-encoding")

OPEN = (reverse("login"), reverse("logout"))
"""Where those without an account may send something."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class BodyTooLongError(Exception):
    """More bytes came than the request may have."""


class BoundedBodies:
    """Refuses what is longer than `LONGEST` with 413, by its header or, if that says nothing, by counting.

    Requests of strangers go on without their body, except to the pages for signing in and out: the views
    refuse them in their own words, and what was sent is never read. The connection is closed after such an
    answer.
    """

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        declared = _declared(scope)
        if declared == 0:
            bound = 0
        elif await _is_known(scope):
            bound = LONGEST
        elif scope["path"] in OPEN:
            bound = LONGEST_ANONYMOUS
        else:
            await self._application(_without_body(scope), _nothing(), _closing(send))
            return
        if declared is not None and declared > bound:
            await _refuse(scope, send, bound)
            return
        counted = _counting(receive, bound)
        try:
            if declared is None:
                scope, counted = await _measured(scope, counted)
            await self._application(scope, counted, send)
        except BodyTooLongError:
            # Django reads the whole body first, so nothing has been answered yet.
            await _refuse(scope, send, bound)


def _declared(scope: dict[str, Any]) -> int | None:
    """How long the body is by the request's headers; None where only its end tells."""
    headers = {name: value for name, value in scope["headers"] if name in _LENGTH_HEADERS}
    if b"transfer-encoding" in headers:
        return None
    value = headers.get(b"content-length", b"0")
    return int(value) if value.isdigit() and len(value) < 19 else None


async def _is_known(scope: dict[str, Any]) -> bool:
    try:
        user = await request_user(scope)
    except DatabaseError:
        return True  # the view finds out, and says so in its own way
    return bool(user.is_authenticated)


def _without_body(scope: dict[str, Any]) -> dict[str, Any]:
    rest = [(name, value) for name, value in scope["headers"] if name not in _LENGTH_HEADERS]
    return {**scope, "headers": rest}


def _nothing() -> Receive:
    """An empty body. What the client sends is left where it is, and the view does not learn of its end."""
    told = False

    async def received() -> Message:
        nonlocal told
        if told:
            await asyncio.Event().wait()  # until Django has answered, and cancels this
        told = True
        return {"type": "http.request", "body": b"", "more_body": False}

    return received


def _counting(receive: Receive, bound: int) -> Receive:
    received = 0

    async def counted() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > bound:
            raise BodyTooLongError
        return message

    return counted


async def _measured(scope: dict[str, Any], receive: Receive) -> tuple[dict[str, Any], Receive]:
    """The request with a body of a known length: the REST framework takes one without for none."""
    body, message = bytearray(), await receive()
    while message.get("more_body"):
        body += message.get("body", b"")
        message = await receive()
    if message["type"] != "http.request":  # the client has gone
        return scope, _first(message, receive)
    body += message.get("body", b"")
    headers = [*_without_body(scope)["headers"], (b"content-length", str(len(body)).encode())]
    return {**scope, "headers": headers}, _first({"type": "http.request", "body": bytes(body)}, receive)


def _first(message: Message, receive: Receive) -> Receive:
    """`message`, then what `receive` gives."""
    waiting = [message]

    async def received() -> Message:
        return waiting.pop() if waiting else await receive()

    return received


def _closing(send: Send) -> Send:
    async def closed(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
        await send(message)

    return closed


async def _refuse(scope: dict[str, Any], send: Send, bound: int) -> None:
    what = f"The body is longer than {bound} bytes."
    as_json = scope["path"].startswith(REST)
    text = json.dumps({"errors": [{"path": "", "message": what}]}) if as_json else what
    kind = b"application/json" if as_json else b"text/plain; charset=utf-8"
    headers = [
        (b"content-type", kind),
        (b"content-length", str(len(text)).encode()),
        (b"connection", b"close"),
        (b"x-content-type-options", b"nosniff"),
        (HEADER.lower().encode(), POLICY.encode()),
    ]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
