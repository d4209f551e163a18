"""Actions: ask for the operation, follow it to its end, and show it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from cli.asking import Effects, announced, confirmed, reasoned
from cli.failures import InterruptedByUserError, RefusedError, TimedOutError, UnreachableError
from cli.options import Order
from cli.output import Column, field, show
from cli.paths import resource
from cli.session import Session, paged_out
from cli.status import state
from cli.words import between, clock, duration, plain, share

if TYPE_CHECKING:
    from rich.status import Status

ENDED = frozenset({"succeeded", "failed", "given_up"})
"""Final states of operations and of deliveries."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 2.0


def _result(result: Mapping[str, Any]) -> str:
    told = {name: "; ".join(value) if isinstance(value, list) else value for name, value in result.items()}
    if progress := result.get("progress"):
        told["progress"] = f"{progress['done']} of {progress['steps']}"
    if (deviation := result.get("deviation")) is not None:
        told["deviation"] = share(deviation)
    return ", ".join(f"{name} {value}" for name, value in told.items() if value not in ("", None))


OPERATION = (
    Column("operation", field("id")),
    Column("state", lambda row: state("operation", row["state"])),
    Column("kind", field("kind")),
    Column("target", field("target")),
    Column("asked by", field("requested_by")),
    Column("reason", field("reason")),
    Column("created", lambda row: clock(row["created_at"])),
    Column("took", lambda row: duration(between(row["created_at"], row["ended_at"]))),
    Column("result", lambda row: _result(row["result"] or {})),
    Column("error", field("error")),
)


def act(
    session: Session,
    path: str,
    order: Order,
    *,
    title: str,
    effects: Effects | None = None,
    destructive: bool = True,
    body: Mapping[str, Any] | None = None,
) -> None:
    """POST an action and show how it ended. One with `effects` needs a confirmation, unless it is not
    destructive.

    title: the action in words that follow "to". Raises `RefusedError` for an operation that failed, and
    `TimedOutError` for one that has not ended in time.
    """
    if effects is None:
        order = reasoned(session, order)
    else:
        order = (confirmed if destructive else announced)(session, order, title, effects)
    operation = session.rest.post(path, {**(body or {}), "reason": order.reason}, key=order.key)
    operation = operation_await(session, operation, order, title)
    show(session, operation, OPERATION)
    if operation["state"] == "failed":
        raise RefusedError(f"could not {title}: {operation['error'] or 'the server gives no reason'}")


def operation_await(session: Session, operation: dict[str, Any], order: Order, title: str) -> dict[str, Any]:
    """The operation when it has ended, or as it is now if `order` does not wait. Raises `TimedOutError`."""
    path = resource("operations", operation["id"])
    see = f"resurge operations show {operation['id']}"
    return followed(session, operation, order, title, path=path, see=see)


def followed(
    session: Session, row: dict[str, Any], order: Order, title: str, *, path: str, see: str
) -> dict[str, Any]:
    """The object at `path` when it has ended, or as it is now if `order` does not wait. see: the command that
    shows it later. Raises `TimedOutError`."""
    started = time.monotonic()
    pause = FIRST_PAUSE
    further = f"it continues; see `{see}`"
    try:
        with _progress(session, title) as progress:
            while order.wait and row["state"] not in ENDED:
                left = order.wait - (time.monotonic() - started)
                if left <= 0:
                    raise TimedOutError(f"{title}: still {row['state']} after {order.wait:g} s; {further}")
                time.sleep(min(pause, left))
                pause = min(LONGEST_PAUSE, pause * 1.3)
                away = ""
                try:
                    row = session.rest.get(path)
                except (UnreachableError, TimedOutError):
                    away = ", the server does not answer"  # it may be restarting; operations outlive that
                if progress is not None:
                    spent = duration(time.monotonic() - started)
                    progress.update(_words(f"{title}: {row['state']} for {spent}{_reached(row)}{away}"))
    except KeyboardInterrupt:
        raise InterruptedByUserError(f"{title}: {further}") from None
    return row


def _reached(row: Mapping[str, Any]) -> str:
    progress = (row.get("result") or {}).get("progress")
    return f", step {progress['done']} of {progress['steps']}" if progress else ""


def _progress(session: Session, title: str) -> AbstractContextManager[Status | None]:
    if not session.notes.is_terminal or paged_out():
        return nullcontext()
    return session.notes.status(_words(title))


def _words(text: str) -> Any:
    from rich.text import Text

    return Text(plain(text))
