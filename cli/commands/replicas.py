"""`resurge replicas`: copies of partitions that take over at once."""

from __future__ import annotations

from typing import Any

import click

from cli import completion
from cli.asking import reasoned
from cli.commands.queries import REPLICATION_MODES, REPLICATION_PLANNERS, NumberOrDefault, fields_given
from cli.options import Order, ResurgeGroup, changes, with_session
from cli.output import Column, Row, dump, field, table_of
from cli.paths import resource
from cli.session import Session
from cli.words import listed, percent, plural

REPLICAS = (
    Column("partition", field("partition")),
    Column("node", field("node")),
    Column("replica", field("replica")),
    Column("state", lambda row: _state(row)),
)
LOSSES = (
    Column("loss of", lambda row: f"{row['kind']} {row['name']}"),
    Column("fidelity", lambda row: percent(row["fidelity"]), right=True),
    Column("queries that stop", lambda row: ", ".join(row["stop"]) or "none"),
    Column("lack some input", lambda row: ", ".join(row["lack_input"]) or "none", least_width=100),
)

topology_argument = click.argument("topology", shell_complete=completion.TOPOLOGIES)


@click.group(cls=ResurgeGroup)
def replicas() -> None:
    """Show and change which partitions have a replica."""


@replicas.command("show")
@topology_argument
@with_session
def show_(session: Session, topology: str) -> None:
    """The present replicas, and what the loss of each rack and node would take.

    \b
    Example:
      resurge replicas show hashtags -o json | jq '.losses[] | select(.fidelity < 1)'
    """
    _shown(session, session.rest.get(resource("topologies", topology, "replicas")))


@replicas.command("set")
@topology_argument
@click.option("--mode", type=click.Choice(REPLICATION_MODES), help="on: replicas run")
@click.option(
    "--budget",
    type=NumberOrDefault(),
    metavar="PARTITIONS|default",
    help="how many replicas there may be",
)
@click.option("--planner", type=click.Choice(REPLICATION_PLANNERS), help="the algorithm that chooses them")
@changes(waits=False)
@with_session
def set_(session: Session, topology: str, order: Order, **given: Any) -> None:
    """Switch replicas on or off, or change their number. New ones are placed within a minute, then catch up.

    \b
    Examples:
      resurge replicas set hashtags --mode on --budget 8 --reason "the top queries must not wait"
      resurge replicas set hashtags --mode off --reason "the nodes are needed"
    """
    asked = fields_given(given)
    if not asked:
        raise click.UsageError("name what to change, for instance --mode on")
    body = {**asked, "reason": reasoned(session, order).reason}
    _shown(session, session.rest.patch(resource("topologies", topology, "replicas"), body))


def _shown(session: Session, answer: Row) -> None:
    if session.format == "json":
        dump(answer)
        return
    rows, ahead = answer["replicas"], answer["next"]
    acting = f"; {plural(len(answer['acting']), 'replica')} act" if answer["acting"] else ""
    note = f"; {answer['note']}" if answer["note"] else ""
    session.say(
        f"Replicas of {answer['topology']}: {answer['mode']}, {len(rows)} of at most "
        f"{plural(answer['budget'], 'partition')}{acting}{note}"
    )
    if ahead is not None:
        session.say(_ahead(ahead))
    if rows:
        session.console.print(table_of(rows, REPLICAS, width=session.console.width))
    if answer["losses"]:
        session.console.print(table_of(answer["losses"], LOSSES, width=session.console.width))


def _ahead(ahead: Row) -> str:
    """What the next replica would buy."""
    if not ahead["gain"]:
        return f"{plural(ahead['more'], 'replica')} more would gain nothing"
    buys = f"would keep {ahead['gain'] * 100:.1f} % more of the output in the worst case"
    instead = f" instead of {listed(ahead['dropped'])}" if ahead["dropped"] else ""
    return f"{plural(ahead['more'], 'replica')} more {buys}: {listed(ahead['added'])}{instead}"


def _state(row: Row) -> str:
    if row["acts"]:
        return "acts"
    if not row["wanted"]:
        return "to go"
    return "ready" if row["caught_up"] else "catching up"
