"""`resurge queries` and `resurge policy`: availability, priorities, and how topologies are recovered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from cli import completion
from cli.asking import reasoned
from cli.numbers import Number, whole
from cli.options import Order, ResurgeGroup, changes, with_session
from cli.output import Column, field, show, show_rows
from cli.paths import resource
from cli.session import Session
from cli.status import DOWN, health
from cli.words import DASH, by_name, clock, count, duration, plural, relative

INSTALLATION = "default"
METHODS = ("auto", "blocking", "incremental")
PLANNERS = (
    "adaptive_density",
    "best_density",
    "dynamic_programming",
    "look_ahead",
    "operator_centric",
    "optimal",
    "profit_density",
)
ROLLBACKS = ("ancestors", "global")
APPROVALS = ("automatic", "approve")
REBALANCING = ("automatic", "manual")
OVERLOAD = ("automatic", "manual")
REPLICATION_MODES = ("off", "advise", "on")
TENTATIVE_OUTPUT = ("off", "on")
REPLICATION_PLANNERS = ("structure_aware", "dynamic_programming", "optimal", "greedy", "published")
REPLICATION_OBJECTIVES = ("weighted", "plain")

QUERIES = (
    Column("TOPOLOGY", field("topology")),
    Column("QUERY", field("partition")),
    Column("PRIORITY", lambda row: count(row["priority"]), right=True),
    Column("STATUS", health),
    Column("RELATIVE", lambda row: relative(row["health"]["value"]), right=True),
    Column("LATENCY", lambda row: duration(row["latency"]), right=True, least_width=70),
    Column("EPOCH", lambda row: count(row["epoch"]), right=True, least_width=90),
    Column("NODE", field("node"), least_width=80),
)
TENTATIVE = (
    Column("BEGAN", lambda row: clock(row["began_at"])),
    Column("QUERY", field("query")),
    Column("EPOCHS", lambda row: f"{row['first_epoch']} to {row['last_epoch']}", least_width=90),
    Column("OUTPUT KEPT", lambda row: f"{100 * row['fidelity']:.0f} %", right=True),
    Column("CORRECTED", lambda row: _corrected(row)),
)
POLICY = (
    Column("method", field("method")),
    Column("planner", field("planner")),
    Column("rollback", field("rollback")),
    Column("approval", field("approval")),
    Column("rebalancing", field("rebalancing")),
    Column("overload", field("overload")),
    Column("slow nodes", field("slow_nodes")),
    Column("correlation threshold", lambda row: _or_installation(row["correlation_threshold"], "nodes")),
    Column("correlation window", lambda row: _or_installation(row["correlation_window"], "s")),
    Column("replicas", field("replication_mode")),
    Column("replication planner", field("replication_planner")),
    Column("replication budget", lambda row: _budget(row["replication_budget"])),
    Column("tentative output", field("tentative_output")),
    Column("above a fidelity of", lambda row: f"{row['tentative_fidelity']:g}"),
    Column("counts for", lambda row: f"{row['tentative_worth']:g} of final output"),
    Column("except of", lambda row: ", ".join(row["tentative_except"]) or DASH),
)


def _corrected(row: Mapping[str, Any]) -> str:
    """What became of tentative rows."""
    if row["problem"]:
        return f"not compared: {row['problem']}"
    if not row["corrected_at"]:
        return "waits for the final rows" if row["ended_at"] else "goes on"
    kinds = ("stayed", "changed", "appeared", "vanished")
    return ", ".join(f"{count(row[kind])} {kind}" for kind in kinds if row[kind]) or "no rows"


def _or_installation(value: float | None, unit: str) -> str:
    return "the installation's value (`resurge settings show`)" if value is None else f"{value:g} {unit}"


def _budget(partitions: int | None) -> str:
    return "a quarter of the partitions" if partitions is None else plural(partitions, "partition")


class NumberOrDefault(click.ParamType[float | str]):
    """A number, or the word for the installation's value."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        if value == INSTALLATION:
            return INSTALLATION
        try:
            return Number().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is neither a number nor `{INSTALLATION}`", param, ctx)


@click.group(cls=ResurgeGroup)
def queries() -> None:
    """Availability and priorities of queries."""


@queries.command("list")
@click.argument("topology", required=False, shell_complete=completion.TOPOLOGIES)
@click.option("--down", is_flag=True, help="only those that should give results and do not")
@with_session
def list_(session: Session, topology: str | None, down: bool) -> None:
    """The queries of a topology, or of all.

    \b
    Examples:
      resurge queries list hashtags
      resurge queries list --down
    """
    names = [topology] if topology else [row["name"] for row in session.rest.rows(resource("topologies"))]
    rows: list[dict[str, Any]] = []
    for name in names:
        asked = session.rest.rows(
            resource("topologies", name, "queries"), {"available": "false" if down else None}
        )
        # Those of a draft, or of a topology that was stopped, are not to give results.
        found = [row for row in asked if not down or row["health"]["state"] in DOWN]
        rows += sorted(found, key=lambda row: by_name(row["partition"]))
    show_rows(session, rows, QUERIES, empty="Every query is available." if down else "No queries found.")


@queries.command("tentative")
@click.argument("topology", shell_complete=completion.TOPOLOGIES)
@with_session
def tentative(session: Session, topology: str) -> None:
    """When queries went on without a part of their input, and what became of those rows; newest first.

    
    Example:
      resurge queries tentative hashtags
    """
    rows = session.rest.rows(resource("topologies", topology, "tentative"))
    show_rows(session, rows, TENTATIVE, empty="No query was ever tentative.")


@queries.command("prioritise")
@click.argument("topology", shell_complete=completion.TOPOLOGIES)
@click.argument(
    "priorities", nargs=-1, required=True, metavar="QUERY=PRIORITY...", shell_complete=completion.priorities
)
@changes(waits=False)
@with_session
def prioritise(session: Session, topology: str, priorities: tuple[str, ...], order: Order) -> None:
    """Set priorities of queries, 1 to 10; queries with the highest priority return first.

    \b
    Example:
      resurge queries prioritise hashtags "O3[0]=10" "O3[1]=10" --reason "carnival week"
    """
    asked = priorities_read(priorities)
    body = {"priorities": asked, "reason": reasoned(session, order).reason}
    rows = session.rest.patch(resource("topologies", topology, "queries"), body)
    show_rows(session, rows, QUERIES, empty="Nothing changed.")


def priorities_read(texts: tuple[str, ...]) -> dict[str, int]:
    """`("O3[0]=10",)` as a dictionary. Raises `click.UsageError`."""
    found: dict[str, int] = {}
    for text in texts:
        query, sign, number = text.rpartition("=")
        if not sign or not query or not whole(number.strip()):
            raise click.UsageError(f"{text!r}: write a query and its priority as `O3[0]=10`")
        if query in found:
            raise click.UsageError(f"{query} is given two priorities")
        found[query] = int(number)
    return found


@click.group(cls=ResurgeGroup)
def policy() -> None:
    """How a topology is recovered."""


@policy.command("show")
@click.argument("topology", shell_complete=completion.TOPOLOGIES)
@with_session
def show_(session: Session, topology: str) -> None:
    """Method, planner, rollback, approval, and the definition of a correlated failure."""
    show(session, session.rest.get(resource("topologies", topology, "policy")), POLICY)


def fields_given(options: Mapping[str, Any]) -> dict[str, Any]:
    """What the options of a change name; null for what is to be as the installation has it."""
    return {
        name: None if value == INSTALLATION else value for name, value in options.items() if value is not None
    }


@policy.command("set")
@click.argument("topology", shell_complete=completion.TOPOLOGIES)
@click.option("--method", type=click.Choice(METHODS), help="auto: free capacity is used at once, in waves")
@click.option(
    "--planner", type=click.Choice(PLANNERS), help="the planner that chooses which queries return first"
)
@click.option("--rollback", type=click.Choice(ROLLBACKS), help="which partitions replay")
@click.option("--approval", type=click.Choice(APPROVALS), help="whether an operator must approve each plan")
@click.option(
    "--rebalancing",
    type=click.Choice(REBALANCING),
    help="when running partitions move to nodes with more capacity",
)
@click.option("--overload", type=click.Choice(OVERLOAD), help="whether the least valuable queries are parked")
@click.option("--slow-nodes", type=click.Choice(OVERLOAD), help="whether slow nodes are drained")
@click.option(
    "--correlation-threshold",
    type=NumberOrDefault(),
    metavar="NODES|default",
    help="from this many nodes lost together, always recover in waves",
)
@click.option(
    "--correlation-window",
    type=NumberOrDefault(),
    metavar="SECONDS|default",
    help="nodes lost within this time count as lost together",
)
@click.option("--replication-mode", type=click.Choice(REPLICATION_MODES), help="whether replicas run")
@click.option(
    "--replication-planner", type=click.Choice(REPLICATION_PLANNERS), help="the planner of replication plans"
)
@click.option(
    "--replication-budget",
    type=NumberOrDefault(),
    metavar="PARTITIONS|default",
    help="partitions that may be replicated",
)
@click.option(
    "--tentative-output",
    type=click.Choice(TENTATIVE_OUTPUT),
    help="whether queries go on without lost inputs",
)
@click.option(
    "--tentative-fidelity",
    type=Number(0.0, 1.0),
    metavar="SHARE",
    help="only those of whose output more than this share is left",
)
@click.option(
    "--tentative-worth",
    type=Number(0.0, 1.0),
    metavar="SHARE",
    help="what complete tentative output counts for in recovery plans, where final output counts for 1",
)
@click.option(
    "--tentative-except",
    metavar="OPERATORS|none",
    help="operators, separated by commas, whose queries never do",
)
@changes(waits=False)
@with_session
def set_(session: Session, topology: str, order: Order, **given: Any) -> None:
    """Change some fields, also during an incident.

    \b
    Examples:
      resurge policy set hashtags --approval approve --reason "I want to see each wave"
      resurge policy set hashtags --correlation-window default --reason "experiment is over"
    """
    asked = fields_given(given)
    if (names := asked.get("tentative_except")) is not None:
        asked["tentative_except"] = [one.strip() for one in names.split(",") if one.strip() != "none"]
    if not asked:
        raise click.UsageError("name what to change, for instance --approval approve")
    body = {**asked, "reason": reasoned(session, order).reason}
    show(session, session.rest.patch(resource("topologies", topology, "policy"), body), POLICY)
