"""`resurge alerts`: what fires, and silences; the rules are in `alert_rules`."""

from __future__ import annotations

from typing import Any

import click

from cli import completion
from cli.asking import reasoned
from cli.durations import Duration
from cli.filters import limit_option, span_options, state_option
from cli.options import Order, ResurgeGroup, changes, with_session
from cli.output import Column, Row, field, show, show_rows
from cli.paths import resource
from cli.session import Session
from cli.status import state
from cli.words import age, between, clock, duration, since

GOING_ON = ("firing", "pending", "missing")
LONGEST_SILENCE = 30 * 86_400.0


def _shown_state(row: Row) -> Any:
    words = f"{row['state']}, silenced" if row["silence"] and row["state"] in GOING_ON else ""
    return state("alert", row["state"], words)


ALERTS = (
    Column("STATE", _shown_state),
    Column("SEVERITY", lambda row: state("urgency", row["severity"])),
    Column("RULE", field("rule")),
    Column("WHAT", field("text")),
    Column("SINCE", lambda row: age(since(row["since"])), right=True, least_width=80),
    Column("ID", lambda row: str(row["id"]), right=True, least_width=100),
)
ALERT = (
    Column("what", field("text")),
    Column("state", _shown_state),
    Column("severity", lambda row: state("urgency", row["severity"])),
    Column("rule", field("rule")),
    Column("id", lambda row: str(row["id"])),
    Column("since", lambda row: clock(row["since"])),
    Column("fired", lambda row: clock(row["fired_at"])),
    Column("ended", lambda row: clock(row["resolved_at"])),
    Column("lasted", lambda row: duration(between(row["fired_at"], row["resolved_at"]))),
    Column("ended because", field("because")),
    Column("silence", lambda row: str(row["silence"] or "")),
    Column("runbook", field("runbook")),
)


def _silence_state(row: Row) -> Any:
    return state("silence", "ended" if row["ended_at"] or (since(row["until"]) or 0) > 0 else "lasts")


SILENCES = (
    Column("ID", lambda row: str(row["id"]), right=True),
    Column("STATE", _silence_state),
    Column("RULE", lambda row: row["rule"] or "all"),
    Column("TOPOLOGY", lambda row: row["topology"] or "all"),
    Column("UNTIL", lambda row: clock(row["ended_at"] or row["until"])),
    Column("BY", field("author")),
    Column("REASON", field("reason"), least_width=90),
)
SILENCE = (
    Column("id", lambda row: str(row["id"])),
    Column("state", _silence_state),
    Column("rule", lambda row: row["rule"] or "all"),
    Column("topology", lambda row: row["topology"] or "all"),
    Column("until", lambda row: clock(row["until"])),
    Column("ended", lambda row: clock(row["ended_at"])),
    Column("ended by", field("ended_by")),
    Column("by", field("author")),
    Column("reason", field("reason")),
)


@click.group(cls=ResurgeGroup)
def alerts() -> None:
    """Alerts that fire now or fired before, their rules, and silences."""


@alerts.command("list")
@state_option("alert")
@click.option("--severity", type=click.Choice(("warning", "critical")), help="only these")
@click.option("--rule", shell_complete=completion.ALERT_RULES, help="only those of one rule")
@click.option("--topology", shell_complete=completion.TOPOLOGIES, help="only those of one topology")
@click.option("--silenced/--not-silenced", default=None, help="only these")
@span_options
@limit_option(100)
@with_session
def list_(
    session: Session, wanted: tuple[str, ...], silenced: bool | None, limit: int, **asked: str | None
) -> None:
    """Open alerts, newest first; ended ones with `--state resolved`.

    `pending`: the condition holds, but not for long enough. `missing`: there is no value to judge.

    \b
    Examples:
      resurge alerts list
      resurge alerts list --state resolved --since 7d --topology hashtags
    """
    filters = {
        **asked,
        "state": list(wanted or GOING_ON),
        "silenced": None if silenced is None else str(silenced).lower(),
    }
    rows = session.rest.rows(resource("alerts"), filters, most=limit)
    show_rows(session, rows, ALERTS, empty="No alerts found.")


@alerts.command("show")
@click.argument("number", type=click.IntRange(min=1), shell_complete=completion.ALERTS)
@with_session
def show_(session: Session, number: int) -> None:
    """One alert, with the runbook of its rule."""
    show(session, session.rest.get(resource("alerts", number)), ALERT)


@alerts.command("silences")
@click.option("--all", "ended", is_flag=True, help="also those that have ended")
@limit_option(100)
@with_session
def silences(session: Session, ended: bool, limit: int) -> None:
    """Silences in force, newest first."""
    asked = {} if ended else {"lasting": "true"}
    rows = session.rest.rows(resource("silences"), asked, most=limit)
    show_rows(session, rows, SILENCES, empty="No silences found.")


@alerts.command("silence")
@click.option("--rule", default="", shell_complete=completion.ALERT_RULES, help="alerts of this rule")
@click.option("--topology", default="", shell_complete=completion.TOPOLOGIES, help="alerts of this topology")
@click.option(
    "--for",
    "seconds",
    type=Duration(1, LONGEST_SILENCE),
    required=True,
    metavar="DURATION",
    help="how long: 90s, 15m, 2h, 7d; at most 30d",
)
@changes(waits=False, keyed=True)
@with_session
def silence(session: Session, rule: str, topology: str, seconds: float, order: Order) -> None:
    """Send webhooks no messages about some alerts for a time. Name a rule, a topology, or both.

    Rules are still checked, and pages show the alerts as silenced. Those that still fire at the end are
    sent then.

    \b
    Examples:
      resurge alerts silence --topology hashtags --for 2h --reason "rack-b is being moved"
      resurge alerts silence --rule lag-high --for 1d --reason "known, see ticket 4711"
    """
    if not rule and not topology:
        raise click.UsageError("name a rule with --rule, a topology with --topology, or both")
    order = reasoned(session, order)
    body = {"rule": rule, "topology": topology, "seconds": round(seconds), "reason": order.reason}
    show(session, session.rest.post(resource("silences"), body, key=order.key), SILENCE)


@alerts.command("unsilence")
@click.argument("number", type=click.IntRange(min=1), shell_complete=completion.SILENCES)
@changes(waits=False)
@with_session
def unsilence(session: Session, number: int, order: Order) -> None:
    """End a silence before its time.

    \b
    Example:
      resurge alerts unsilence 3 --reason "the move is over"
    """
    order = reasoned(session, order)
    path = f"{resource('silences', number)}end/"
    show(session, session.rest.post(path, {"reason": order.reason}), SILENCE)
