"""`resurge savepoints`: named copies of checkpoints, which stay until they are deleted."""

from __future__ import annotations

from typing import Any

import click

from cli import completion
from cli.acting import act
from cli.asking import Effect, confirmed
from cli.filters import limit_option, state_option
from cli.options import Order, ResurgeGroup, changes, with_session
from cli.output import Column, Row, field, show, show_rows
from cli.paths import resource
from cli.session import Session
from cli.status import state
from cli.words import age, clock, count, since, size


def _state(row: Row) -> Any:
    return state("savepoint", row["state"])


SAVEPOINTS = (
    Column("NAME", field("name")),
    Column("STATE", _state),
    Column("TOPOLOGY", field("topology")),
    Column("VERSION", lambda row: count(row["version"]), right=True, least_width=80),
    Column("EPOCH", lambda row: count(row["epoch"]), right=True),
    Column("SIZE", lambda row: size(row["size_bytes"]), right=True, least_width=70),
    Column("CREATED", lambda row: age(since(row["created_at"])), right=True, least_width=60),
    Column("BY", field("requested_by"), least_width=110),
    Column("CAUSE", field("cause"), least_width=130),
)
SAVEPOINT = (
    Column("name", field("name")),
    Column("state", _state),
    Column("topology", lambda row: f"{row['topology']}, version {row['version']}"),
    Column("checkpoint", lambda row: count(row["epoch"])),
    Column("size", lambda row: size(row["size_bytes"])),
    Column("came as a file", lambda row: "yes" if row["imported"] else "no"),
    Column("created", lambda row: f"{clock(row['created_at'])} by {row['requested_by']}"),
    Column("reason", field("reason")),
    Column("cause", field("cause")),
)


@click.group(cls=ResurgeGroup)
def savepoints() -> None:
    """Named copies of checkpoints. A deployment can begin with one."""


@savepoints.command("list")
@click.argument("topology", required=False, shell_complete=completion.TOPOLOGIES)
@state_option("savepoint")
@limit_option(100)
@with_session
def list_(session: Session, topology: str | None, wanted: tuple[str, ...], limit: int) -> None:
    """The savepoints of a topology, or of all, newest first.

    \b
    Example:
      resurge savepoints list hashtags
    """
    asked = {"topology": topology, "state": list(wanted)}
    rows = session.rest.rows(resource("savepoints"), asked, most=limit)
    show_rows(session, rows, SAVEPOINTS, empty="No savepoints found.")


@savepoints.command("show")
@click.argument("name", shell_complete=completion.SAVEPOINTS)
@with_session
def show_(session: Session, name: str) -> None:
    """One savepoint."""
    show(session, session.rest.get(resource("savepoints", name)), SAVEPOINT)


@savepoints.command("create")
@click.argument("topology", shell_complete=completion.TOPOLOGIES)
@click.argument("name")
@click.option("--checkpoint", type=click.IntRange(min=0), help="its epoch; the newest one if left out")
@changes()
@with_session
def create(session: Session, topology: str, name: str, checkpoint: int | None, order: Order) -> None:
    """Copy a checkpoint of TOPOLOGY, and call the copy NAME. The topology goes on meanwhile.

    \b
    Examples:
      resurge savepoints create hashtags before-v2 --reason "version 2 comes tomorrow"
      resurge topologies deploy hashtags --savepoint before-v2 --reason "version 2 was wrong"
    """
    body = {"name": name} if checkpoint is None else {"name": name, "checkpoint": checkpoint}
    path = resource("topologies", topology, "savepoints")
    act(session, path, order, title=f"make savepoint {name} of {topology}", body=body)


@savepoints.command("delete")
@click.argument("name", shell_complete=completion.SAVEPOINTS)
@changes(destructive=True, waits=False)
@with_session
def delete(session: Session, name: str, order: Order) -> None:
    """Delete a savepoint. Files that were exported from it stay.

    \b
    Example:
      resurge savepoints delete before-v2 --reason "version 2 runs well" --yes
    """
    path = resource("savepoints", name)
    row = session.rest.get(path)

    def effects() -> list[Effect]:
        what = f"{size(row['size_bytes'])} of {row['topology']}, checkpoint {row['epoch']}, are deleted."
        return [Effect(f"{what} No deployment can begin with it any more.", warning=True)]

    order = confirmed(session, order, f"delete savepoint {name}", effects)
    session.rest.delete(path, order.reason)
    session.say(f"savepoint {name} is deleted")
