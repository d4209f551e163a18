"""`resurge events`: the numbered events, from the history and as they happen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import click

from cli import completion
from cli.failures import TimedOutError, UnreachableError
from cli.filters import kinds_option, limit_option
from cli.kinds import EVENT_KINDS
from cli.live.lines import about, line_of
from cli.options import ResurgeGroup, with_session
from cli.output import Column, Row, dump_line, field, show_rows
from cli.paths import resource
from cli.session import Session
from cli.words import clock

EVENTS = (
    Column("SEQUENCE", lambda row: str(row["sequence"]), right=True),
    Column("AT", lambda row: clock(row["at"])),
    Column("KIND", field("kind")),
    Column("ABOUT", lambda row: about(row)),
    Column("WHY", field("reason"), least_width=80),
)
TICK = 0.5
PAUSE = 1.0
PAGE = 1000


@click.group(cls=ResurgeGroup)
def events() -> None:
    """Past and new events, numbered without gaps."""


@events.command("list")
@click.option("--after", type=click.IntRange(min=0), help="only later ones, oldest first")
@kinds_option(EVENT_KINDS, "for instance `node.lost`; repeatable")
@click.option("--topology", shell_complete=completion.TOPOLOGIES, help="only about this one")
@click.option("--node", shell_complete=completion.NODES, help="only about this one")
@click.option(
    "--incident", type=click.IntRange(min=1), shell_complete=completion.INCIDENTS, help="only about this one"
)
@limit_option(50)
@with_session
def list_(
    session: Session,
    after: int | None,
    kinds: tuple[str, ...],
    topology: str | None,
    node: str | None,
    incident: int | None,
    limit: int,
) -> None:
    """The newest events, or those after a number, in order.

    \b
    Example:
      resurge events list --kind node.lost --kind node.joined --limit 20
    """
    if after is None and not 0 < limit <= PAGE:
        raise click.UsageError(f"the newest {PAGE:,} at most; begin with --after 0 to read all of them")
    asked = {"kind": list(kinds), "topology": topology, "node": node, "incident": incident}
    if after is None:
        rows = session.rest.get(resource("events"), {**asked, "newest": "true", "limit": limit})["results"]
    else:
        rows = []
        for page in pages(session, after, most=limit, **asked):
            rows += page["results"]
    show_rows(session, rows, EVENTS, empty="No events found.")


def pages(session: Session, after: int, *, most: int = 0, **asked: Any) -> Iterator[dict[str, Any]]:
    """Events after a number, page by page; says so where some of them are no longer kept."""
    read = 0
    while True:
        limit = min(PAGE, most - read) if most else PAGE
        page = session.rest.get(resource("events"), {**asked, "after": after, "limit": limit})
        if not read and not page["complete"]:
            session.say(f"some events up to {page['trimmed_through']} are no longer kept")
        yield page
        rows = page["results"]
        read += len(rows)
        if not page["next"] or read == most:
            return
        after = rows[-1]["sequence"]


@events.command("follow")
@click.option("--after", type=click.IntRange(min=0), help="begin after this number; default: with new events")
@kinds_option(EVENT_KINDS, "for instance `node.lost`; repeatable")
@click.option(
    "--topology", "topologies", multiple=True, shell_complete=completion.TOPOLOGIES, help="repeatable"
)
@click.option("--metrics", is_flag=True, help="also the measurements of each second")
@with_session
def follow(
    session: Session,
    after: int | None,
    kinds: tuple[str, ...],
    topologies: tuple[str, ...],
    metrics: bool,
) -> None:
    """Events as they happen, one per line, until Ctrl+C. After a lost connection no event is missing.

    \b
    Examples:
      resurge events follow
      resurge events follow --after 1200 -o json | jq -c 'select(.kind == "node.lost")'
    """
    from cli.live.stream import Events, EventStream, Gap, Lost

    def write(event: Row) -> None:
        wanted = event["kind"] in kinds if kinds else metrics or not event["kind"].endswith(".metrics")
        elsewhere = topologies and event.get("topology") and event["topology"] not in topologies
        if wanted and not elsewhere:
            _write(session, event)

    start = newest_sequence(session) if after is None else after
    stream = EventStream(session.target, start, topologies=list(topologies) or None)
    try:
        while True:
            signal = stream.receive(TICK)
            if isinstance(signal, Events):
                for event in signal.events:
                    write(event)
            elif isinstance(signal, Lost):
                session.say(f"{signal.why}; trying again in {signal.delay:.1f} s")
            elif isinstance(signal, Gap):
                stream.restart(_catch_up(session, stream.sequence, write))
    except KeyboardInterrupt:
        return  # the way to end it
    finally:
        stream.close()


def newest_sequence(session: Session) -> int:
    return int(session.rest.get(resource("events"), {"newest": "true", "limit": 1})["last_sequence"])


def _catch_up(session: Session, after: int, write: Callable[[Row], None]) -> int:
    """Read over REST the events that the websocket no longer sends; returns the number to go on from."""
    while True:
        try:
            if newest_sequence(session) < after:  # another database, whose numbers started again
                after = 0
            for page in pages(session, after):
                for event in page["results"]:
                    write(event)
                    after = event["sequence"]
            return after
        except (UnreachableError, TimedOutError) as error:
            session.say(error.message)
            time.sleep(PAUSE)


def _write(session: Session, event: Row) -> None:
    if session.format == "json":
        dump_line(event)
    else:
        click.echo(line_of(event))
