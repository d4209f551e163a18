"""`resurge webhooks test|deliveries|delivery|redeliver`: deliveries and their outcomes."""

from __future__ import annotations

from typing import Any

import click

from cli import completion
from cli.acting import followed
from cli.asking import reasoned
from cli.commands.webhooks import name_argument, webhook_path
from cli.failures import RefusedError
from cli.filters import kinds_option, limit_option, span_options, state_option
from cli.kinds import WEBHOOK_KINDS
from cli.options import Order, ResurgeCommand, changes, with_session
from cli.output import Column, field, show, show_rows, table_of
from cli.paths import resource
from cli.session import Session
from cli.status import state
from cli.webhook_id import webhook_id
from cli.words import age, clock, count, duration, since

DELIVERIES = (
    Column("DELIVERY", field("id")),
    Column("STATE", lambda row: state("delivery", row["state"])),
    Column("KIND", field("kind")),
    Column("SEQUENCE", lambda row: count(row["sequence"]), right=True, least_width=90),
    Column("CREATED", lambda row: age(since(row["created_at"])), right=True, least_width=100),
    Column("ATTEMPTS", lambda row: count(row["attempts"]), right=True, least_width=110),
    Column("HTTP", field("status"), right=True),
    Column("ERROR", field("error"), least_width=130),
)
DELIVERY = (
    *(Column(column.title.lower(), column.value) for column in DELIVERIES),
    Column("topology", field("topology")),
    Column("requested by", field("requested_by")),
    Column("next attempt", lambda row: clock(row["due_at"]) if row["state"] == "pending" else None),
    Column("ended", lambda row: clock(row["ended_at"])),
)
ATTEMPTS = (
    Column("ATTEMPT", lambda row: str(row["number"]), right=True),
    Column("AT", lambda row: clock(row["started_at"])),
    Column("TOOK", lambda row: duration(row["duration"]), right=True),
    Column("HTTP", field("status"), right=True),
    Column("ERROR", field("error")),
    Column("ANSWER", field("excerpt"), least_width=100),
)


@click.command("test", cls=ResurgeCommand)
@name_argument
@changes()
@with_session
def test(session: Session, name: str, order: Order) -> None:
    """Send a `webhook.test`, also to a disabled webhook, and show the answer. It is tried once.

    \b
    Example:
      resurge webhooks test pager --reason "the new address"
    """
    _deliver(session, webhook_id(session.rest, name), ("test",), order, f"test webhook {name}")


@click.command("deliveries", cls=ResurgeCommand)
@name_argument
@state_option("delivery")
@kinds_option((*WEBHOOK_KINDS, "webhook.test"))
@click.option("--topology", shell_complete=completion.TOPOLOGIES, help="only about this one")
@click.option("--sequence", type=click.IntRange(min=1), metavar="N", help="only of this event")
@span_options
@limit_option(50)
@with_session
def deliveries(
    session: Session,
    name: str,
    wanted: tuple[str, ...],
    kinds: tuple[str, ...],
    limit: int,
    **given: Any,
) -> None:
    """The deliveries of a webhook and their outcomes, newest first; they are kept for two weeks.

    \b
    Examples:
      resurge webhooks deliveries pager --state given_up --since 1d
      resurge webhooks deliveries pager --limit all -o json | jq '[.[].attempts] | max'
    """
    asked = {**given, "state": list(wanted), "kind": list(kinds)}
    rows = session.rest.rows(f"{webhook_path(session, name)}deliveries/", asked, most=limit)
    show_rows(session, rows, DELIVERIES, empty="No deliveries found.")


@click.command("delivery", cls=ResurgeCommand)
@name_argument
@click.argument("delivery", shell_complete=completion.deliveries)
@with_session
def delivery(session: Session, name: str, delivery: str) -> None:
    """One delivery with every attempt; as JSON also with its body."""
    number = webhook_id(session.rest, name)
    row = session.rest.get(resource("webhooks", number, "deliveries", delivery))
    show(session, row, DELIVERY)
    if session.format == "table" and row["log"]:
        session.console.print()
        session.console.print(table_of(row["log"], ATTEMPTS, width=session.console.width))


@click.command("redeliver", cls=ResurgeCommand)
@name_argument
@click.argument("delivery", shell_complete=completion.deliveries)
@changes()
@with_session
def redeliver(session: Session, name: str, delivery: str, order: Order) -> None:
    """Send a delivery again, under the same id, with all attempts.

    \b
    Example:
      resurge webhooks redeliver pager 0b0c7f3e-6f0a-4c1e-9a53-1f5f5f0f2f5c --reason "they lost it"
    """
    number = webhook_id(session.rest, name)
    _deliver(session, number, ("deliveries", delivery, "redeliver"), order, f"deliver {delivery} again")


def _deliver(session: Session, number: int, action: tuple[str, ...], order: Order, title: str) -> None:
    """Request a delivery and show how it ended. Raises `RefusedError` for one that was given up."""
    order = reasoned(session, order)
    path = resource("webhooks", number, *action)
    row = session.rest.post(path, {"reason": order.reason}, key=order.key)
    of_it = resource("webhooks", number, "deliveries", row["id"])
    see = f"resurge webhooks delivery {number} {row['id']}"
    row = followed(session, row, order, title, path=of_it, see=see)
    show(session, row, DELIVERY)
    if row["state"] == "given_up":
        raise RefusedError(f"could not {title}: {row['error'] or 'the server gives no reason'}")
