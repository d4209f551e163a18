"""`resurge alerts rules`, `rule`, `create`, `set`, `delete`: the rules that alerts come of."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from cli import completion
from cli.asking import Effect, confirmed, reasoned
from cli.durations import Duration
from cli.kinds import ALERT_METRICS
from cli.numbers import Number
from cli.options import Order, ResurgeCommand, changes, with_session
from cli.output import Column, Row, field, show, show_rows
from cli.paths import resource
from cli.session import Session
from cli.status import state
from cli.words import clock, duration

LONGEST = 7 * 86_400.0
MEDIA_TYPES = {"prometheus": "application/yaml", "grafana": "application/json"}


def _condition(row: Row) -> str:
    return f"{row['metric']} {row['comparison']} {row['threshold']:g} for {duration(row['held'])}"


def _state(row: Row) -> Any:
    return state("rule", "enabled" if row["enabled"] else "off")


RULES = (
    Column("NAME", field("name")),
    Column("STATE", _state),
    Column("SEVERITY", lambda row: state("urgency", row["severity"])),
    Column("CONDITION", _condition),
    Column("TOPOLOGY", lambda row: row["topology"] or "all", least_width=90),
    Column("LOWEST PRIORITY", lambda row: str(row["priority"]), right=True, least_width=110),
)
RULE = (
    Column("name", field("name")),
    Column("state", _state),
    Column("severity", lambda row: state("urgency", row["severity"])),
    Column("condition", _condition),
    Column("ends after", lambda row: duration(row["calm"])),
    Column("without data", lambda row: "fires" if row["missing"] == "fire" else "is only shown"),
    Column("topology", lambda row: row["topology"] or "all"),
    Column("lowest priority", lambda row: str(row["priority"])),
    Column("runbook", field("runbook")),
    Column("changed", lambda row: clock(row["updated_at"])),
    Column("created", lambda row: f"{clock(row['created_at'])} by {row['created_by']}"),
)

rule_argument = click.argument("name", shell_complete=completion.ALERT_RULES)


def rule_options(function: Any) -> Any:
    """What may be changed of a rule, given to the command as keywords; None where it was not given."""
    options = (
        click.option("--calm", type=Duration(0, LONGEST), metavar="DURATION",
                     help="how long the condition must be false before an alert ends; default 30s"),
        click.option("--severity", type=click.Choice(("warning", "critical")), help="default warning"),
        click.option("--missing", type=click.Choice(("show", "fire")),
                     help="what happens if there is no value for that long; default show"),
        click.option("--topology", shell_complete=completion.TOPOLOGIES, help='only this topology; "": all'),
        click.option("--priority", type=click.IntRange(1, 10), help="only queries of at least this priority"),
        click.option("--runbook", metavar="TEXT", help="what to do when it fires: a text or a URL"),
        click.option("--enable/--disable", "enabled", default=None, help="alerts of a disabled rule end"),
    )  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


@click.command("rules", cls=ResurgeCommand)
@with_session
def rules(session: Session) -> None:
    """All rules, with their conditions.

    A share is written as a number: 1 is all, 0.95 stands for 95 %.
    """
    show_rows(session, session.rest.rows(resource("alert-rules")), RULES, empty="No rules found.")


@click.command("rule", cls=ResurgeCommand)
@rule_argument
@with_session
def rule(session: Session, name: str) -> None:
    """One rule, with its runbook."""
    show(session, session.rest.get(resource("alert-rules", name)), RULE)


@click.command("create", cls=ResurgeCommand)
@click.argument("name")
@click.argument("metric", shell_complete=completion.words(ALERT_METRICS))
@click.argument("comparison", type=click.Choice(("above", "below")))
@click.argument("threshold", type=Number())
@click.option("--for", "held", type=Duration(0, LONGEST), required=True, metavar="DURATION",
              help="how long the condition must hold before an alert fires")  # fmt: skip
@rule_options
@changes(waits=False, keyed=True)
@with_session
def create(
    session: Session,
    name: str,
    metric: str,
    comparison: str,
    threshold: float,
    held: float,
    order: Order,
    **given: Any,
) -> None:
    """Make a rule; for administrators.

    METRIC is query_relative_latency, query_latency, availability, lag, checkpoint_age, checkpoint_intervals,
    fidelity or fidelity_rack_loss.

    \b
    Examples:
      resurge alerts create slow query_latency above 2 --for 1m --priority 5 --reason "as agreed"
      resurge alerts create weak fidelity_rack_loss below 0.8 --for 5m --reason "one rack must not matter"
    """
    order = reasoned(session, order)
    body = {
        "name": name,
        "metric": metric,
        "comparison": comparison,
        "threshold": threshold,
        "held": held,
        **_given(given),
        "reason": order.reason,
    }
    show(session, session.rest.post(resource("alert-rules"), body, key=order.key), RULE)


@click.command("set", cls=ResurgeCommand)
@rule_argument
@click.option("--comparison", type=click.Choice(("above", "below")), help="when the condition holds")
@click.option("--threshold", type=Number(), help="in the unit of the metric")
@click.option("--for", "held", type=Duration(0, LONGEST), metavar="DURATION",
              help="how long the condition must hold before an alert fires")  # fmt: skip
@rule_options
@changes(waits=False)
@with_session
def set_(session: Session, name: str, order: Order, **given: Any) -> None:
    """Change a rule; for administrators. It is refused if the rule has changed since it was read.

    \b
    Examples:
      resurge alerts set lag-high --threshold 60 --reason "bursts are normal here"
      resurge alerts set fidelity-low --enable --reason "there are three racks now"
    """
    asked = _given(given)
    if not asked:
        raise click.UsageError("say what to change, for instance --threshold 60")
    order = reasoned(session, order)
    path = resource("alert-rules", name)
    _, tag = session.rest.tagged(path)
    show(session, session.rest.patch(path, {**asked, "reason": order.reason}, tag=tag), RULE)


@click.command("delete", cls=ResurgeCommand)
@rule_argument
@changes(destructive=True, waits=False)
@with_session
def delete(session: Session, name: str, order: Order) -> None:
    """Delete a rule; for administrators. Its alerts end.

    \b
    Example:
      resurge alerts delete slow --reason "not useful" --yes
    """
    path = resource("alert-rules", name)
    row, tag = session.rest.tagged(path)

    def effects() -> list[Effect]:
        return [Effect(f"{_condition(row)} is no longer checked, and its alerts end", warning=True)]

    order = confirmed(session, order, f"delete rule {name}", effects)
    session.rest.delete(path, order.reason, tag=tag)
    session.say(f"rule {name} is deleted")


@click.command("export", cls=ResurgeCommand)
@click.option(
    "--format",
    "form",
    type=click.Choice(tuple(MEDIA_TYPES)),
    default="prometheus",
    show_default=True,
    help="prometheus: alerting rules; grafana: a dashboard",
)
@click.option(
    "--to", "file", type=click.Path(dir_okay=False, allow_dash=True), help="a file; default: standard output"
)
@with_session
def export(session: Session, form: str, file: str | None) -> None:
    """The rules that are on, for Prometheus or Grafana. FILE is replaced if it is there.

    \b
    Examples:
      resurge alerts export --to /etc/prometheus/rules/resurge.yaml
      resurge alerts export --format grafana --to resurge.json
    """
    path = resource("alert-rules", "export")
    content = session.rest.document(path, {"format": form}, media_type=MEDIA_TYPES[form])
    if not file or file == "-":
        sys.stdout.write(content.decode())
        return
    try:
        Path(file).write_bytes(content)
    except OSError as error:
        raise click.UsageError(f"{file} cannot be written: {error.strerror}") from None
    session.say(f"the rules are in {file}")


def _given(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}
