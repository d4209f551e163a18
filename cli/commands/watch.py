"""`resurge watch`: availability, open incidents with their waves, and nodes, as they change."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import click

from cli.failures import TimedOutError, UnreachableError
from cli.options import ResurgeCommand, with_session
from cli.output import dump
from cli.paths import resource
from cli.session import Session, paged_out, terminal_width

if TYPE_CHECKING:
    from cli.live.state import State
    from cli.live.stream import EventStream, Signal

TICK = 0.25
STILL = 1.0
"""Seconds after which ages are drawn again without a change."""
SHORTEST = 0.2
"""Least seconds between two drawings; more if drawing a large fleet takes long."""


@click.command(cls=ResurgeCommand)
@click.option("--once", is_flag=True, help="show the present state, and end")
@with_session
def watch(session: Session, once: bool) -> None:
    """Live view of the fleet: incidents and their waves, availability, queries that are down, nodes.

    It follows the server's numbered events and reconnects by itself. If the output is not a terminal it
    writes plain lines: the present state, then each change. Ctrl+C ends it.

    \b
    Examples:
      resurge watch
      resurge watch --once -o json | jq '.queries_down | length'
      resurge watch >> outage.log
    """
    if session.asked_format == "json" and not once:
        raise click.UsageError(
            "JSON goes with --once; for a stream of it use `resurge events follow -o json`"
        )
    from cli.live.state import State

    shown = State()
    shown.load(session.rest.get(resource("snapshot")))
    terminal = sys.stdout.isatty() and not paged_out()
    if once and session.asked_format == "json":
        from cli.live.lines import document

        dump(document(shown))
    elif once and (terminal or session.asked_format == "table"):
        _print_view(session, shown)
    elif once or not terminal:
        _write_lines(session, shown, once=once)
    else:
        _draw(session, shown)


def _print_view(session: Session, shown: State) -> None:
    from rich.console import Console

    from cli.live.view import Link, view

    width = terminal_width()
    console = Console(file=sys.stdout, width=width, highlight=False)
    console.print(view(shown, Link(session.target.url, True, ""), width))


def _write_lines(session: Session, shown: State, *, once: bool) -> None:
    from cli.live.lines import Changes, summary
    from cli.live.stream import Events, Gap, Lost

    for line in summary(shown):
        click.echo(line)
    if once:
        return
    changes = Changes(shown)
    with suppress(KeyboardInterrupt), closing(_stream(session, shown)) as stream:
        for signal in followed(session, shown, stream):
            if isinstance(signal, Events):
                for line in changes.lines(signal.events):
                    click.echo(line)
            elif isinstance(signal, Lost):
                click.echo(f"connection lost: {signal.why}; trying again in {signal.delay:.1f} s")
            elif isinstance(signal, Gap):
                click.echo("events were missed; the present state:")
                for line in summary(shown):
                    click.echo(line)
                changes = Changes(shown)


def _draw(session: Session, shown: State) -> None:
    from rich.console import Console
    from rich.live import Live

    from cli.live.stream import Lost
    from cli.live.view import Fitted, Link, view

    console = Console(file=sys.stdout, highlight=False)
    words, drawn, cost = "connecting", 0.0, 0.0
    with suppress(KeyboardInterrupt), closing(_stream(session, shown)) as stream:

        def drawing() -> Fitted:
            # The size is asked for each time: terminals are resized.
            size = console.size
            link = Link(session.target.url, stream.live, words)
            return Fitted(view(shown, link, size.width, most_nodes=size.height), size.height)

        with Live(drawing(), console=console, screen=True, auto_refresh=False) as live:
            changed = True
            for signal in followed(session, shown, stream):
                if isinstance(signal, Lost):
                    words = f"reconnecting: {signal.why}"
                changed = changed or signal is not None
                started = time.monotonic()
                if started - drawn >= (max(SHORTEST, 4 * cost) if changed else STILL):
                    live.update(drawing(), refresh=True)
                    drawn, cost, changed = started, time.monotonic() - started, False


def _stream(session: Session, shown: State) -> EventStream:
    from cli.live.stream import EventStream

    return EventStream(session.target, shown.sequence)


def followed(session: Session, shown: State, stream: EventStream) -> Iterator[Signal | None]:
    """The stream's next signal, after it was applied to the state; a `Gap` after the snapshot was loaded
    again."""
    from cli.live.stream import Events, Gap, Lost

    while True:
        signal = stream.receive(TICK)
        if isinstance(signal, Events):
            shown.apply(signal.events, signal.sequence)
        elif isinstance(signal, Gap):
            try:
                snapshot = session.rest.get(resource("snapshot"))
            except (UnreachableError, TimedOutError) as error:
                # The view is out of date and says so; opening the stream again leads back here.
                stream.close()
                yield Lost(error.message, STILL)
                time.sleep(STILL)
                continue
            shown.load(snapshot)
            stream.restart(shown.sequence)
        yield signal
