"""`resurge queries park|unpark`: queries that stop, so that others have their room."""

from __future__ import annotations

from typing import Any

import click

from cli import completion
from cli.acting import act
from cli.asking import Effect, permitted
from cli.guarantee import park_effects, unpark_effect
from cli.options import Order, changes, with_session
from cli.paths import resource
from cli.session import Session
from cli.words import by_name, plural

topology_argument = click.argument("topology", shell_complete=completion.TOPOLOGIES)


@click.command("park")
@topology_argument
@click.argument("queries", nargs=-1, required=True, metavar="QUERY...", shell_complete=completion.queries)
@changes(destructive=True)
@with_session
def park(session: Session, topology: str, queries: tuple[str, ...], order: Order) -> None:
    """Stop queries, so that others can use their capacity; unpark them later. No row is lost, unless the
    guarantee of the topology is bounded.

    \b
    Example:
      resurge queries park hashtags "O9[0]" "O10[0]" --reason "input has doubled"
    """

    def effects() -> list[Effect]:
        row = session.rest.get(resource("topologies", topology))
        permitted(row, "park")
        return [
            Effect(f"{plural(len(queries), 'query', 'queries')} of {topology} stop.", list(queries), True),
            *park_effects(row),
        ]

    title = f"park {plural(len(queries), 'query', 'queries')} of {topology}"
    _act(session, topology, "park", list(queries), order, title=title, effects=effects)


@click.command("unpark")
@topology_argument
@click.argument("queries", nargs=-1, metavar="[QUERY...]", shell_complete=completion.queries)
@changes()
@with_session
def unpark(session: Session, topology: str, queries: tuple[str, ...], order: Order) -> None:
    """Let parked queries return as soon as there is capacity; all of them if none is named.

    \b
    Example:
      resurge queries unpark hashtags --reason "input is normal again"
    """

    def effects() -> list[Effect]:
        row = session.rest.get(resource("topologies", topology))
        permitted(row, "unpark")
        rows = session.rest.rows(resource("topologies", topology, "queries"))
        back = queries or sorted((row["partition"] for row in rows if row["parked"]), key=by_name)
        return [
            Effect(
                f"{plural(len(back), 'query', 'queries')} of {topology} return as soon as there is capacity.",
                list(back),
            ),
            unpark_effect(row),
        ]

    title = f"unpark queries of {topology}"
    _act(session, topology, "unpark", list(queries), order, title=title, effects=effects)


def _act(
    session: Session, topology: str, action: str, queries: list[str], order: Order, **words: Any
) -> None:
    path = resource("topologies", topology, action)
    act(session, path, order, destructive=action == "park", body={"queries": queries}, **words)
