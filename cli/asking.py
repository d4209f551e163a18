"""Before a change: why, and for a destructive one what will happen and whether that is meant."""

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
    """One line of what will happen. `names` are listed after it, shortened where they are many."""

    text: str
    names: Sequence[str] = ()
    warning: bool = False


Effects = Callable[[], Sequence[Effect]]


def confirmed(session: Session, order: Order, title: str, effects: Effects) -> Order:
    """`order` with a reason, after somebody said yes. `effects` is only called where it is shown.

    Raises `click.UsageError` where nobody can be asked, and `RefusedError` for a no.
    """
    if order.yes:
        return reasoned(session, order)
    if not session.interactive:
        raise click.UsageError(f"nobody can be asked here whether to {title}: add --yes if it is meant")
    told(session, title, effects())
    order = reasoned(session, order)
    if not click.confirm("Go on?", err=True):
        raise RefusedError("nothing was changed")
    return replace(order, yes=True)


def permitted(row: Mapping[str, Any], action: str) -> None:
    """Raise `RefusedError` in the server's words where it refuses this action on the row (one of a detail
    resource) now: before anybody is asked for a reason."""
    refusal = row.get("refusals", {}).get(action)
    if refusal:
        raise RefusedError(str(refusal))


def reasoned(session: Session, order: Order) -> Order:
    """`order` with a reason: the one given, or one that is asked for."""
    if order.reason:
        return order
    if not session.interactive:
        raise click.UsageError("say why with --reason: every change is audited with its reason")
    return replace(order, reason=click.prompt("Reason", err=True, value_proc=_reason).strip())


def told(session: Session, title: str, effects: Sequence[Effect]) -> None:
    """What will happen, on standard error."""
    from rich.text import Text

    session.notes.print(Text(plain(title[:1].upper() + title[1:]), style="bold"))
    for effect in effects:
        names = f": {listed(effect.names)}" if effect.names else ""
        mark = ("  ! ", "yellow") if effect.warning else ("  - ", "dim")
        session.notes.print(Text.assemble(mark, plain(effect.text + names)))


def _reason(text: str) -> str:
    if not text.strip():
        raise click.BadParameter("say why")
    if len(text) > LONGEST_REASON:
        raise click.BadParameter(f"longer than {LONGEST_REASON} characters")
    return text
