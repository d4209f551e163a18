"""`resurge racks`: taking all nodes of a rack in and out of service together."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import click

from cli import completion
from cli.acting import act
from cli.asking import Effect, permitted
from cli.options import Order, ResurgeGroup, changes, with_session
from cli.output import Column, Row, field, show
from cli.paths import resource
from cli.session import Session
from cli.words import count, plural

RACK = (
    Column("name", field("name")),
    Column("nodes", lambda row: ", ".join(f"{name} {state}" for name, state in row["nodes"].items())),
    Column("would be drained", lambda row: ", ".join(row["leaving"])),
    Column("partitions to move", lambda row: count(len(row["moves"]))),
    Column("without room", lambda row: ", ".join(_named(_stuck(row)))),
    Column("cpu % needed", lambda row: count(row["needed_percent"])),
    Column("cpu % free elsewhere", lambda row: count(row["free_percent"])),
)

rack_argument = click.argument("name", shell_complete=completion.racks)


@click.group(cls=ResurgeGroup)
def racks() -> None:
    """Taking all nodes of a rack in and out of service together."""


@racks.command("show")
@rack_argument
@with_session
def show_(session: Session, name: str) -> None:
    """The nodes of a rack, and what would move and has no room elsewhere if it were drained now."""
    show(session, session.rest.get(resource("racks", name)), RACK)


@racks.command("drain")
@rack_argument
@changes(destructive=True)
@with_session
def drain(session: Session, name: str, order: Order) -> None:
    """Drain all nodes of a rack together: partitions move to other racks only, with their state.

    \b
    Example:
      resurge racks drain rack-b --reason "its switch will be replaced" --yes
    """

    def effects() -> list[Effect]:
        rack = session.rest.get(resource("racks", name))
        permitted(rack, "drain")
        return _effects(rack)

    act(session, resource("racks", name, "drain"), order, title=f"drain the nodes of {name}", effects=effects)


@racks.command("activate")
@rack_argument
@changes()
@with_session
def activate(session: Session, name: str, order: Order) -> None:
    """Let all drained nodes of a rack host partitions again."""
    act(session, resource("racks", name, "activate"), order, title=f"activate the nodes of {name}")


def _stuck(rack: Row) -> list[Row]:
    return [move for move in rack["moves"] if not move["fits"]]


def _named(moves: list[Row]) -> list[str]:
    return [f"{move['topology']} {move['partition']}" for move in moves]


def _effects(rack: dict[str, Any]) -> list[Effect]:
    leaving, moves, stuck = rack["leaving"], rack["moves"], _stuck(rack)
    found = [Effect(f"{plural(len(leaving), 'node')} will be drained", leaving)]
    by_topology: defaultdict[str, list[str]] = defaultdict(list)
    for move in moves:
        by_topology[move["topology"]].append(move["partition"])
    for topology, labels in sorted(by_topology.items()):
        verb = "moves to other nodes with its state" if len(labels) == 1 else "move with their state"
        found.append(Effect(f"{plural(len(labels), 'partition')} of {topology} {verb}", labels))
    if moves:
        others = plural(len(rack["others"]), "other node has", "other nodes have")
        found.append(
            Effect(
                f"They need {count(rack['needed_percent'])} % of a core; {others} "
                f"{count(rack['free_percent'])} % free."
            )
        )
        found.append(Effect("No query goes back to a checkpoint; latencies are higher for about one epoch."))
    else:
        found.append(Effect("No partition runs there."))
    if stuck:
        verb = "has no room elsewhere and stays" if len(stuck) == 1 else "have no room elsewhere and stay"
        found.append(Effect(f"{plural(len(stuck), 'partition')} {verb} until there is", _named(stuck), True))
    if awaited := rack["awaited"]:
        verb = "has not joined yet and is" if len(awaited) == 1 else "have not joined yet and are"
        found.append(Effect(f"{plural(len(awaited), 'node')} {verb} not drained", awaited, True))
    found.append(Effect("No new partitions are placed on these nodes until they are activated."))
    return found
