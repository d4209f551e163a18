"""Records: checkpoints, operations, problems, the audit trail, and the installation's settings."""

from __future__ import annotations

from typing import Any

import click

from cli import completion
from cli.acting import ENDED, OPERATION, operation_await
from cli.durations import Duration
from cli.failures import RefusedError
from cli.filters import kinds_option, limit_option, span_options, state_option
from cli.kinds import CHANNELS, OPERATION_KINDS
from cli.options import WAIT, Order, ResurgeGroup, with_session
from cli.output import Column, Row, field, show, show_rows
from cli.paths import resource
from cli.session import Session
from cli.status import state
from cli.words import age, between, clock, count, duration, plain, plural, since, size

CHECKPOINTS = (
    Column("TOPOLOGY", field("topology")),
    Column("EPOCH", lambda row: count(row["epoch"]), right=True),
    Column("STATE", lambda row: state("checkpoint", row["state"])),
    Column("STARTED", lambda row: age(since(row["started_at"])), right=True),
    Column("TOOK", lambda row: _took(row), right=True, least_width=60),
    Column("ACKNOWLEDGED", lambda row: f"{row['acknowledged']}/{row['total']}", right=True, least_width=80),
    Column("SIZE", lambda row: size(row["size_bytes"]), right=True, least_width=70),
    Column("STORED", lambda row: "yes" if row["stored"] else "no", least_width=60),
    Column("ASKED BY", field("requested_by"), least_width=110),
    Column("CAUSE", field("cause"), least_width=90),
)  # fmt: skip


def _took(row: Row) -> str:
    return duration(between(row["started_at"], row["ended_at"]))


OPERATIONS = (
    Column("OPERATION", field("id")),
    Column("STATE", lambda row: state("operation", row["state"])),
    Column("KIND", field("kind")),
    Column("TARGET", field("target")),
    Column("CREATED", lambda row: age(since(row["created_at"])), right=True, least_width=90),
    Column("BY", field("requested_by"), least_width=110),
    Column("REASON", field("reason"), least_width=130),
)
PROBLEMS = (
    Column("WHEN", lambda row: age(since(row["at"])), right=True),
    Column("", lambda row: state("severity", row["severity"])),
    Column("TOPOLOGY", field("topology"), least_width=80),
    Column("TIMES", lambda row: count(row["count"]), right=True, least_width=100),
    Column("WHERE", field("where"), least_width=120),
    Column("PROBLEM AND REMEDY", lambda row: plain(f"{row['what']} {row['hint']}".strip())),
)
AUDIT = (
    Column("WHEN", lambda row: clock(row["at"])),
    Column("WHO", field("actor")),
    Column("CHANNEL", field("channel"), least_width=90),
    Column("ACTION", field("action")),
    Column("TARGET", field("target")),
    Column("WHY", field("reason"), least_width=70),
)
SETTINGS = (
    Column("fault injection", lambda row: "on" if row["fault_injection"] else "off"),
    Column("theta", field("theta")),
    Column("checkpoint interval", lambda row: duration(row["checkpoint_interval"])),
    Column("heartbeat interval", lambda row: duration(row["heartbeat_interval"])),
    Column("session timeout", lambda row: duration(row["session_timeout"])),
    Column("correlation window", lambda row: duration(row["correlation_window"])),
    Column("correlation threshold", lambda row: plural(row["correlation_threshold"], "node")),
    Column("highest utilisation", lambda row: f"{row['max_utilisation'] * 100:.0f} %"),
    Column("replacements come after", field("replacement_delay")),
)
PIPELINES = (Column("NAME", field("name")), Column("DESCRIPTION", field("description")))


@click.group(cls=ResurgeGroup)
def checkpoints() -> None:
    """Checkpoints, from which a recovery starts."""


@checkpoints.command("list")
@click.argument("topology", required=False, shell_complete=completion.TOPOLOGIES)
@state_option("checkpoint")
@span_options
@limit_option(50)
@with_session
def checkpoints_list(
    session: Session, topology: str | None, wanted: tuple[str, ...], limit: int, **span: str | None
) -> None:
    """The checkpoints of a topology, or of all.

    \b
    Example:
      resurge checkpoints list hashtags --state failed --since 1d
    """
    path = resource("topologies", topology, "checkpoints") if topology else resource("checkpoints")
    rows = session.rest.rows(path, {**span, "state": list(wanted)}, most=limit)
    show_rows(session, rows, CHECKPOINTS, empty="No checkpoints found.")


@click.group(cls=ResurgeGroup)
def operations() -> None:
    """Asynchronous actions and their outcomes."""


@operations.command("list")
@state_option("operation")
@kinds_option(OPERATION_KINDS, "for instance `node.drain`; repeatable")
@click.option("--target", help="a topology, a node or an incident's number")
@click.option("--by", "requested_by", metavar="USER", help="the user who requested it")
@span_options
@limit_option(50)
@with_session
def operations_list(
    session: Session, wanted: tuple[str, ...], kinds: tuple[str, ...], limit: int, **given: str | None
) -> None:
    """Operations, newest first.

    \b
    Example:
      resurge operations list --state failed --since 1d
    """
    asked = {**given, "state": list(wanted), "kind": list(kinds)}
    rows = session.rest.rows(resource("operations"), asked, most=limit)
    show_rows(session, rows, OPERATIONS, empty="No operations found.")


@operations.command("show")
@click.argument("operation", shell_complete=completion.OPERATIONS)
@click.option("--wait", is_flag=True, help="until it has ended")
@click.option(
    "--wait-timeout",
    type=Duration(0.1, 86_400),
    default=WAIT,
    show_default="10m",
    metavar="DURATION",
    help="after this time the command ends with code 5",
)
@with_session
def operations_show(session: Session, operation: str, wait: bool, wait_timeout: float) -> None:
    """One operation. Ends with code 1 when it has failed.

    \b
    Example:
      id=$(resurge topologies deploy hashtags --reason first --no-wait | jq -r .id)
      resurge operations show "$id" --wait
    """
    row = session.rest.get(resource("operations", operation))
    if wait and row["state"] not in ENDED:
        row = operation_await(session, row, Order(wait=wait_timeout), f"{row['kind']} of {row['target']}")
    show(session, row, OPERATION)
    if row["state"] == "failed":
        raise RefusedError(f"{row['kind']} of {row['target']} failed: {row['error']}")


@click.group(cls=ResurgeGroup)
def problems() -> None:
    """Problems, each with its remedy."""


@problems.command("list")
@click.argument("topology", required=False, shell_complete=completion.TOPOLOGIES)
@state_option("severity", "severity")
@span_options
@limit_option(50)
@with_session
def problems_list(
    session: Session, topology: str | None, wanted: tuple[str, ...], limit: int, **span: str | None
) -> None:
    """Problems of a topology, or of all."""
    path = resource("topologies", topology, "problems") if topology else resource("problems")
    rows = session.rest.rows(path, {**span, "severity": list(wanted)}, most=limit)
    show_rows(session, rows, PROBLEMS, empty="No open problems.")


@click.group(cls=ResurgeGroup)
def audit() -> None:
    """Who changed what, when, and why."""


@audit.command("list")
@click.option("--actor", metavar="USER", shell_complete=completion.audited("actors"), help="who did it")
@click.option("--action", shell_complete=completion.audited("actions"), help="for instance `topology.policy`")
@click.option("--target", help="the target of the action")
@click.option(
    "--channel",
    "channels",
    multiple=True,
    type=click.Choice(CHANNELS),
    help="the interface that was used; repeatable",
)
@click.option("--search", metavar="TEXT", help="in target, action and reason")
@span_options
@limit_option(50)
@with_session
def audit_list(session: Session, channels: tuple[str, ...], limit: int, **given: Any) -> None:
    """The audit trail, newest first; as JSON with the values before and after.

    \b
    Examples:
      resurge audit list --target hashtags --limit 5
      resurge audit list --actor kim --since 2026-01-31T08:00 --until 2026-01-31T09:30
      resurge audit list --channel admin --since 7d --limit all -o json > week.json
    """
    rows = session.rest.rows(resource("audit"), {**given, "channel": list(channels)}, most=limit)
    show_rows(session, rows, AUDIT, empty="No entries found.")


@click.group(cls=ResurgeGroup)
def settings() -> None:
    """The settings of this installation."""


@settings.command("show")
@with_session
def settings_show(session: Session) -> None:
    """Thresholds and policies."""
    show(session, session.rest.get(resource("settings")), SETTINGS)


@click.group(cls=ResurgeGroup)
def pipelines() -> None:
    """Ready-made topologies."""


@pipelines.command("list")
@with_session
def pipelines_list(session: Session) -> None:
    """Names for `resurge topologies deploy --pipeline`; as JSON with their specifications."""
    show_rows(session, session.rest.get(resource("pipelines")), PIPELINES, empty="No pipelines found.")
