"""Before a change: ask for the reason, and show the effects of a destructive one and ask for confirmation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from cli.failures import RefusedError
from cli.options import LONGEST_REASON, Order
from cli.session import Session
from cli.words import listed, plain


@dataclass(frozen=True, slots=True)
class Effect:
    """One line about an effect. `names` are listed after it, shortened if there are many."""

    text: str
    names: Sequence[str] = ()
    warning: bool = False


Effects = Callable[[], Sequence[Effect]]


def confirmed(session: Session, order: Order, title: str, effects: Effects) -> Order:
    """`order` with a reason, after a confirmation. `effects` is only called if its lines are shown.

    Raises `click.UsageError` without a terminal to ask on, and `RefusedError` if the answer is no.
    """
    if order.yes:
        return reasoned(session, order)
    if not session.interactive:
        raise click.UsageError(f"cannot ask for confirmation to {title} without a terminal; pass --yes")
    told(session, title, effects())
    order = reasoned(session, order)
    if not click.confirm("Continue?", err=True):
        raise RefusedError("nothing was changed")
    return replace(order, yes=True)


def announced(session: Session, order: Order, title: str, effects: Effects) -> Order:
    """`order` with a reason, for a change that needs no confirmation: on a terminal the effects are shown."""
    if session.interactive:
        told(session, title, effects())
    return reasoned(session, order)


def permitted(row: Mapping[str, Any], action: str) -> None:
    """Raise `RefusedError` in the server's words where it refuses this action on the row (one of a detail
    resource) now: before the user is asked for a reason."""
    refusal = row.get("refusals", {}).get(action)
    if refusal:
        raise RefusedError(str(refusal))


def reasoned(session: Session, order: Order) -> Order:
    """`order` with a reason: the given one, or the answer to a question."""
    if order.reason:
        return order
    if not session.interactive:
        raise click.UsageError("give a reason with --reason: every change is audited with it")
    return replace(order, reason=click.prompt("Reason", err=True, value_proc=_reason).strip())


def told(session: Session, title: str, effects: Sequence[Effect]) -> None:
    """Show the effects on standard error."""
    from rich.text import Text

    session.notes.print(Text(plain(title[:1].upper() + title[1:]), style="bold"))
    for effect in effects:
        names = f": {listed(effect.names)}" if effect.names else ""
        mark = ("  ! ", "yellow") if effect.warning else ("  - ", "dim")
        session.notes.print(Text.assemble(mark, plain(effect.text + names)))


def _reason(text: str) -> str:
    if not text.strip():
        raise click.BadParameter("give a reason")
    if len(text) > LONGEST_REASON:
        raise click.BadParameter(f"longer than {LONGEST_REASON} characters")
    return text
