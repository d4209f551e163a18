"""`resurge webhooks`: receivers of events; their deliveries are in `delivering`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from cli import completion
from cli.asking import Effect, confirmed, reasoned
from cli.keeping import Keeping, keeping_options, secret_keep
from cli.kinds import WEBHOOK_KINDS
from cli.numbers import Number
from cli.options import Order, ResurgeGroup, changes, with_session
from cli.output import Column, Row, field, show, show_rows
from cli.paths import resource
from cli.session import Session
from cli.status import state
from cli.webhook_id import webhook_id
from cli.words import age, clock, count, listed, plural, since

if TYPE_CHECKING:
    pass

LONGEST_ADDRESS = 500


def _state(row: Row) -> Any:
    if row["enabled"]:
        return state("webhook", "failing" if row["failing_since"] else "enabled")
    return state("webhook", "disabled by the system" if row["disabled_because"] else "disabled")


def _host(row: Row) -> str:
    """Without the path, which may hold a secret."""
    parts = urlsplit(row["url"])
    return f"{parts.scheme}://{parts.netloc}"


def _topologies(row: Row) -> str:
    return listed(row["topologies"], 20) or "all"


WEBHOOKS = (
    Column("NAME", field("name")),
    Column("STATE", _state),
    Column("WHERE TO", _host, least_width=70),
    Column("KINDS", lambda row: listed(row["kinds"], 2), least_width=90),
    Column("TOPOLOGIES", _topologies, least_width=110),
    Column("WAITING", lambda row: count(row["pending"]), right=True),
    Column("LAST SUCCESS", lambda row: age(since(row["succeeded_at"])), right=True, least_width=60),
)
WEBHOOK = (
    Column("name", field("name")),
    Column("id", lambda row: str(row["id"])),
    Column("state", _state),
    Column("disabled because", field("disabled_because")),
    Column("address", field("url")),
    Column("kinds", lambda row: listed(row["kinds"], len(WEBHOOK_KINDS))),
    Column("topologies", _topologies),
    Column("waiting", lambda row: count(row["pending"])),
    Column("failures", lambda row: count(row["failures"])),
    Column("failing since", lambda row: clock(row["failing_since"])),
    Column("last success", lambda row: clock(row["succeeded_at"])),
    Column("created", lambda row: f"{clock(row['created_at'])} by {row['created_by']}"),
)

name_argument = click.argument("name", shell_complete=completion.WEBHOOKS)
kind_completion = completion.words(WEBHOOK_KINDS)


def webhook_path(session: Session, name: str) -> str:
    return resource("webhooks", webhook_id(session.rest, name))


@click.group(cls=ResurgeGroup)
def webhooks() -> None:
    """HTTP receivers of events; for administrators. NAME may also be the number."""


@webhooks.command("list")
@click.option("--enabled/--disabled", default=None, help="only these")
@click.option("--search", metavar="TEXT", help="in name and address")
@with_session
def list_(session: Session, enabled: bool | None, search: str | None) -> None:
    """All webhooks and their health. The table leaves out the path of an address, which may hold a secret.

    \b
    Example:
      resurge webhooks list --disabled
    """
    asked = {"enabled": None if enabled is None else str(enabled).lower(), "search": search}
    show_rows(session, session.rest.rows(resource("webhooks"), asked), WEBHOOKS, empty="No webhooks found.")


@webhooks.command("show")
@name_argument
@with_session
def show_(session: Session, name: str) -> None:
    """One webhook; its secret was shown when it was made."""
    show(session, session.rest.get(webhook_path(session, name)), WEBHOOK)


@webhooks.command("create")
@click.argument("name")
@click.argument("address")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    required=True,
    metavar="KIND",
    shell_complete=kind_completion,
    help="send these events, for instance `node.lost`; repeatable",
)
@click.option(
    "--topology",
    "topologies",
    multiple=True,
    shell_complete=completion.TOPOLOGIES,
    help="send only events of these (events of nodes are always sent); repeatable",
)
@click.option("--disabled", is_flag=True, help="create it disabled")
@keeping_options("secret")
@changes(waits=False)
@with_session
def create(
    session: Session,
    name: str,
    address: str,
    kinds: tuple[str, ...],
    topologies: tuple[str, ...],
    disabled: bool,
    keeping: Keeping,
    order: Order,
) -> None:
    """Send events to ADDRESS. The server shows the secret that signs them only once.

    An address can be a secret itself: with - it is read from standard input, so it is in no shell history.

    \b
    Examples:
      resurge webhooks create pager https://hooks.example.org/resurge --kind incident.opened \\
          --kind node.lost --to pager.secret --reason "tell who is on duty"
      resurge webhooks create chat - --kind incident.closed --show --reason "team channel" < address
    """
    body = {
        "name": name,
        "url": _address(address),
        "kinds": list(kinds),
        "topologies": list(topologies),
        "enabled": not disabled,
        "reason": reasoned(session, order).reason,
    }
    secret_keep(session, keeping, lambda: session.rest.post(resource("webhooks"), body), "secret", WEBHOOK)


@webhooks.command("update")
@name_argument
@click.option("--address", help="the receiver's address; - reads it from standard input")
@click.option("--add-kind", multiple=True, metavar="KIND", shell_complete=kind_completion, help="repeatable")
@click.option(
    "--remove-kind", multiple=True, metavar="KIND", shell_complete=kind_completion, help="repeatable"
)
@click.option("--add-topology", multiple=True, shell_complete=completion.TOPOLOGIES, help="repeatable")
@click.option("--remove-topology", multiple=True, shell_complete=completion.TOPOLOGIES, help="repeatable")
@click.option("--all-topologies", is_flag=True, help="send events of every topology")
@click.option("--enable/--disable", "enabled", default=None, help="disabling gives up pending deliveries")
@changes(waits=False)
@with_session
def update(session: Session, name: str, order: Order, **given: Any) -> None:
    """Change some fields. The change is refused if the webhook has changed since it was read.

    \b
    Examples:
      resurge webhooks update pager --add-kind problem.raised --reason "also what goes wrong quietly"
      resurge webhooks update pager --enable --reason "it answers again"
    """
    order = reasoned(session, order)
    path = webhook_path(session, name)
    row, tag = session.rest.tagged(path)
    asked = _changes(row, **given)
    show(session, session.rest.patch(path, {**asked, "reason": order.reason}, tag=tag), WEBHOOK)


def _changes(
    row: Row,
    *,
    address: str | None,
    add_kind: tuple[str, ...],
    remove_kind: tuple[str, ...],
    add_topology: tuple[str, ...],
    remove_topology: tuple[str, ...],
    all_topologies: bool,
    enabled: bool | None,
) -> dict[str, Any]:
    """The request that changes the webhook `row`. Raises `click.UsageError`."""
    asked: dict[str, Any] = {}
    if address is not None:
        asked["url"] = _address(address)
    if add_kind or remove_kind:
        asked["kinds"] = _list(row["kinds"], add_kind, remove_kind)
    if all_topologies and (add_topology or remove_topology):
        raise click.UsageError("--all-topologies goes with neither --add-topology nor --remove-topology")
    if all_topologies:
        asked["topologies"] = []
    elif add_topology or remove_topology:
        asked["topologies"] = _list(row["topologies"], add_topology, remove_topology)
        if not asked["topologies"]:  # to the server an empty list means every topology
            raise click.UsageError("that leaves no topology: write --all-topologies, or --disable")
    if enabled is not None:
        asked["enabled"] = enabled
    if not asked:
        raise click.UsageError("say what to change, for instance --add-kind node.lost")
    return asked


def _list(now: list[str], added: tuple[str, ...], removed: tuple[str, ...]) -> list[str]:
    if unknown := sorted(set(removed) - set(now)):
        raise click.UsageError(f"it has no {', '.join(unknown)} to remove; it has {', '.join(now) or 'all'}")
    return sorted({*now, *added} - set(removed))


@webhooks.command("rotate-secret")
@name_argument
@click.option(
    "--overlap-hours",
    type=Number(min=0),
    metavar="HOURS",
    help="hours for which the present secret also signs; default 24",
)
@keeping_options("secret")
@changes(waits=False)
@with_session
def rotate_secret(
    session: Session, name: str, overlap_hours: float | None, keeping: Keeping, order: Order
) -> None:
    """Make a new secret and show it once. The present one also signs for a while."""
    body: dict[str, Any] = {"reason": reasoned(session, order).reason}
    if overlap_hours is not None:
        body["overlap_hours"] = overlap_hours
    path = f"{webhook_path(session, name)}rotate-secret/"
    secret_keep(session, keeping, lambda: session.rest.post(path, body), "secret", WEBHOOK)


@webhooks.command("delete")
@name_argument
@changes(destructive=True, waits=False)
@with_session
def delete(session: Session, name: str, order: Order) -> None:
    """Delete a webhook, its secret and its delivery log. It is refused if the webhook has changed since it
    was shown.

    \b
    Example:
      resurge webhooks delete pager --reason "the pager is retired" --yes
    """
    path = webhook_path(session, name)
    row, tag = session.rest.tagged(path)

    def effects() -> list[Effect]:
        waiting = plural(row["pending"], "pending delivery is", "pending deliveries are")
        return [
            Effect(f"{_host(row)} gets no more events about", row["kinds"], warning=True),
            *([Effect(f"{waiting} not sent.", warning=True)] if row["pending"] else []),
        ]

    order = confirmed(session, order, f"delete webhook {row['name']}", effects)
    session.rest.delete(path, order.reason, tag=tag)
    session.say(f"webhook {row['name']} is deleted")


def _address(given: str) -> str:
    """The given address, or the text of standard input."""
    address = sys.stdin.read(LONGEST_ADDRESS + 2).strip() if given == "-" else given
    if not address:
        raise click.UsageError("the address is empty")
    return address
