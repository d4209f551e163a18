"""`resurge webhooks`: who is told about events; what became of it is in `delivering`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from cli import completion
from cli.asking import Effect, confirmed, reasoned
from cli.keeping import Keeping, keeping_options, secret_keep
from cli.kinds import WEBHOOK_KINDS
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
    """Without the path: in it are the secrets that some receivers put into addresses."""
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
    """Who is told about events, over HTTP; for administrators. NAME may also be the number."""


@webhooks.command("list")
@click.option("--enabled/--disabled", default=None, help="only these")
@click.option("--search", metavar="TEXT", help="in name and address")
@with_session
def list_(session: Session, enabled: bool | None, search: str | None) -> None:
    """All webhooks, and how they do. The table leaves out the path of an address; there may be secrets in it.

    \b
    Example:
      resurge webhooks list --disabled
    """
    asked = {"enabled": None if enabled is None else str(enabled).lower(), "search": search}
    show_rows(
        session, session.rest.rows(resource("webhooks"), asked), WEBHOOKS, empty="There is no such webhook."
    )


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
    help="tell it about these, for instance `node.lost`; repeatable",
)
@click.option(
    "--topology",
    "topologies",
    multiple=True,
    shell_complete=completion.TOPOLOGIES,
    help="only about these (events of nodes always come); repeatable",
)
@click.option("--disabled", is_flag=True, help="tell it nothing yet")
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
    """Have ADDRESS told about events. The server shows the secret that signs them this once.

    Addresses can be secrets themselves: with - it is read from standard input, and in no history.

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
@click.option("--address", help="where it is sent to; - reads it from standard input")
@click.option("--add-kind", multiple=True, metavar="KIND", shell_complete=kind_completion, help="repeatable")
@click.option(
    "--remove-kind", multiple=True, metavar="KIND", shell_complete=kind_completion, help="repeatable"
)
@click.option("--add-topology", multiple=True, shell_complete=completion.TOPOLOGIES, help="repeatable")
@click.option("--remove-topology", multiple=True, shell_complete=completion.TOPOLOGIES, help="repeatable")
@click.option("--all-topologies", is_flag=True, help="tell it about every topology")
@click.option("--enable/--disable", "enabled", default=None, help="disabling gives up what waits to be sent")
@changes(waits=False)
@with_session
def update(session: Session, name: str, order: Order, **given: Any) -> None:
    """Change some of it. What somebody else, or the system, changed meanwhile is not overwritten but refused.

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
    """What to send for a webhook that is `row` now. Raises `click.UsageError`."""
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
            raise click.UsageError("that leaves none: write --all-topologies, or --disable")
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
    type=click.FloatRange(min=0),
    metavar="HOURS",
    help="so long the present secret signs as well; default 24",
)
@keeping_options("secret")
@changes(waits=False)
@with_session
def rotate_secret(
    session: Session, name: str, overlap_hours: float | None, keeping: Keeping, order: Order
) -> None:
    """Make a new secret, shown this once. The present one signs as well for a while."""
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
    """Forget a webhook, its secret and its delivery log. Exactly what is listed is deleted.

    \b
    Example:
      resurge webhooks delete pager --reason "the pager is retired" --yes
    """
    path = webhook_path(session, name)
    row, tag = session.rest.tagged(path)

    def effects() -> list[Effect]:
        waiting = plural(row["pending"], "delivery that waits is", "deliveries that wait are")
        return [
            Effect(f"{_host(row)} is told no more about", row["kinds"], warning=True),
            *([Effect(f"{waiting} not sent.", warning=True)] if row["pending"] else []),
        ]

    order = confirmed(session, order, f"delete webhook {row['name']}", effects)
    session.rest.delete(path, order.reason, tag=tag)
    session.say(f"webhook {row['name']} is deleted")


def _address(given: str) -> str:
    """The address itself, or what standard input holds."""
    address = sys.stdin.read(LONGEST_ADDRESS + 2).strip() if given == "-" else given
    if not address:
        raise click.UsageError("the address is empty")
    return address
