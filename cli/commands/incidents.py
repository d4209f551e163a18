"""`resurge incidents`: failures, their recoveries, and the operator's decisions."""

from __future__ import annotations

from collections.abc import Sequence

import click

from cli import completion
from cli.acting import act
from cli.asking import Effect, Effects, confirmed, permitted
from cli.estimates import over_words, waits_for
from cli.filters import limit_option, span_options, state_option
from cli.options import Order, ResurgeGroup, changes, with_session
from cli.output import Column, Row, field, show, show_rows, table_of
from cli.paths import resource
from cli.session import Session
from cli.status import health, state
from cli.waves import wave_moves, wave_nodes, wave_queries, wave_state
from cli.words import age, between, clock, count, duration, listed, plural, since

INCIDENTS = (
    Column("NUMBER", lambda row: str(row["number"]), right=True),
    Column("STATE", health),
    Column("OPENED", lambda row: age(since(row["opened_at"])), right=True),
    Column("OVER IN", lambda row: over_words(row), least_width=60),
    Column("METHOD", field("method"), least_width=60),
    Column("FAILED NODES", lambda row: listed(row["failed_nodes"], 4)),
    Column("TOPOLOGIES", lambda row: listed(row["topologies"], 3), least_width=90),
    Column("HALF BACK", lambda row: _after(row, "half_queries_at"), right=True, least_width=110),
    Column("ALL BACK", lambda row: _after(row, "all_queries_at"), right=True, least_width=70),
)
INCIDENT = (
    Column("incident", lambda row: str(row["number"])),
    Column("state", health),
    Column("more", lambda row: row["health"]["note"] or None),
    Column("over in", lambda row: over_words(row) or None),
    Column("method", field("method")),
    Column("trigger", lambda row: " ".join(part for part in (row["trigger"], row["reason"]) if part)),
    Column("detected", lambda row: clock(row["detected_at"])),
    Column("failed nodes", lambda row: listed(row["failed_nodes"], 20)),
    Column("topologies", lambda row: listed(row["topologies"], 20)),
    Column("replacements requested", lambda row: count(row["wanted_nodes"])),
    Column("first query back", lambda row: _after(row, "first_query_at")),
    Column("half of the queries back", lambda row: _after(row, "half_queries_at")),
    Column("all queries back", lambda row: _after(row, "all_queries_at")),
    Column("closed", lambda row: clock(row["closed_at"])),
)
WAVES = (
    Column("WAVE", lambda row: str(row["wave"]), right=True),
    Column("TOPOLOGY", field("topology")),
    Column("STATE", lambda row: state("wave", wave_state(row))),
    Column("METHOD", field("method"), least_width=100),
    Column("QUERIES", lambda row: count(len(wave_queries(row))), right=True),
    Column("PARTITIONS", lambda row: count(len(row["restore"])), right=True),
    Column("ON", lambda row: listed(wave_nodes(row), 4), least_width=80),
    Column("GENERATION", lambda row: str(row["generation"]), right=True, least_width=110),
    Column("CAUGHT UP", lambda row: clock(row["caught_up_at"]), least_width=100),
)
PROPOSALS = (
    Column("PROPOSAL", field("proposal")),
    Column("WAVE", lambda row: str(row["wave"]), right=True),
    Column("QUERIES", lambda row: listed(row["queries"])),
    Column("PARTITIONS", lambda row: count(len(row["restore"])), right=True),
    Column("WHY", field("reason"), least_width=80),
)
PREDICTIONS = (
    Column("PREDICTED AT", lambda row: clock(row["made_at"])),
    Column("WHAT", lambda row: f"plan {row['subject']}" if row["kind"] == "wave" else "incident"),
    Column("WAITED FOR", lambda row: waits_for(row["stage"])),
    Column("EXPECTED", lambda row: clock(row["expected_at"])),
    Column("RANGE, 80 %", lambda row: f"{clock(row['low_at'])} to {clock(row['high_at'])}", least_width=80),
    Column("OVER", lambda row: clock(row["over_at"])),
)
STORY = (
    Column("AT", lambda row: clock(row["at"])),
    Column("", field("kind"), least_width=70),
    Column("WHAT", field("text")),
)

number_argument = click.argument("number", type=click.IntRange(min=1), shell_complete=completion.INCIDENTS)


def _after(row: Row, field_name: str) -> str:
    return duration(between(row["detected_at"], row[field_name]))


@click.group(cls=ResurgeGroup)
def incidents() -> None:
    """Failures, their recoveries, and your decisions about them."""


@incidents.command("list")
@click.option("--open", "only_open", is_flag=True, help="only open ones")
@state_option("incident")
@click.option("--topology", shell_complete=completion.TOPOLOGIES, help="only those of this topology")
@click.option("--node", shell_complete=completion.NODES, help="only those in which this node failed")
@span_options
@limit_option(50)
@with_session
def list_(
    session: Session, only_open: bool, wanted: tuple[str, ...], limit: int, **given: str | None
) -> None:
    """Incidents, newest first.

    \b
    Examples:
      resurge incidents list --open -o json | jq -r '.[].number'
      resurge incidents list --node node-3 --since 7d
    """
    asked = {**given, "state": list(wanted), "open": "true" if only_open else None}
    rows = session.rest.rows(resource("incidents"), asked, most=limit)
    empty = "No open incidents." if only_open else "No incidents found."
    show_rows(session, rows, INCIDENTS, empty=empty)


@incidents.command("show")
@number_argument
@with_session
def show_(session: Session, number: int) -> None:
    """One incident: its waves, what waits for approval, and its story."""
    incident = session.rest.get(resource("incidents", number))
    show(session, incident, INCIDENT)
    if session.format == "json":
        return
    console = session.console
    plans = session.rest.rows(resource("incidents", number, "plans"))
    parts = (
        (plans, WAVES),
        (list(incident["proposals"].values()), PROPOSALS),
        (incident["forecast"].get("course", []), PREDICTIONS),
        (incident["entries"], STORY),
    )
    for rows, columns in parts:
        if rows:
            console.print()
            console.print(table_of(rows, columns, width=console.width))


@incidents.command("plans")
@number_argument
@with_session
def plans_(session: Session, number: int) -> None:
    """The waves of an incident; as JSON with placement and the reasons of the planner."""
    rows = session.rest.rows(resource("incidents", number, "plans"))
    show_rows(session, rows, WAVES, empty="No waves planned yet.")


@incidents.command("approve")
@number_argument
@click.option("--proposal", metavar="ID", help="only this proposal, without asking")
@changes(destructive=True)
@with_session
def approve(session: Session, number: int, proposal: str | None, order: Order) -> None:
    """Approve a proposed plan: the named one, or all that wait.

    Only the listed plans are approved. A plan that was replaced in the meantime is refused. With --yes
    nothing is listed, and all that wait when the request arrives are approved.

    \b
    Examples:
      resurge incidents approve 7
      resurge incidents approve 7 --proposal hashtags-5-1 --reason "revenue first"
    """
    path = resource("incidents", number, "approve")
    title = f"approve the plans of incident {number}"
    if proposal is not None:
        return act(session, path, order, title=f"approve {proposal}", body={"proposal": proposal})
    if order.yes:
        # The same request in each repetition of the command: also when nothing waits any more.
        return act(session, path, order, title=title)
    waiting = _proposals(session, number)
    order = confirmed(session, order, title, lambda: [_proposed(*one) for one in waiting.items()])
    for topology, one in sorted(waiting.items()):
        own, body = order.part(topology), {"proposal": one["proposal"]}
        act(session, path, own, title=f"approve {one['proposal']}", body=body)
    return None


def _proposals(session: Session, number: int) -> dict[str, Row]:
    row = session.rest.get(resource("incidents", number))
    permitted(row, "approve")
    found: dict[str, Row] = row["proposals"]
    return found


def _proposed(topology: str, proposal: Row) -> Effect:
    start = f"{proposal['proposal']}, wave {proposal['wave']} of {topology}"
    partitions = plural(len(proposal["restore"]), "partition")
    if wave_moves(proposal):
        text = f"{start}: {partitions} moved, no query goes back to a checkpoint"
        return Effect(text, proposal["restore"])
    back = (
        "all running partitions go back to the checkpoint"
        if proposal["rollback"]
        else "running partitions are not affected"
    )
    returning = plural(len(proposal["queries"]), "query returns", "queries return")
    text = f"{start}: {partitions} restored, {back}; {returning}"
    return Effect(text, proposal["queries"], proposal["rollback"])


@incidents.command("pause")
@number_argument
@changes()
@with_session
def pause(session: Session, number: int, order: Order) -> None:
    """Plan no further wave until resumed; waves under way continue."""
    _act(session, number, "pause", order, f"pause the recovery of incident {number}")


@incidents.command("resume")
@number_argument
@changes()
@with_session
def resume(session: Session, number: int, order: Order) -> None:
    """Continue a paused recovery."""
    _act(session, number, "resume", order, f"resume the recovery of incident {number}")


@incidents.command("replan")
@number_argument
@changes(destructive=True)
@with_session
def replan(session: Session, number: int, order: Order) -> None:
    """Discard waves that are not applied yet, and plan again with the present nodes."""

    def effects() -> Sequence[Effect]:
        row = session.rest.get(resource("incidents", number))
        permitted(row, "replan")
        plans = session.rest.rows(resource("incidents", number, "plans"))
        thrown = [one for one in plans if one["state"] in ("planned", "published")]
        return [
            *(
                Effect(f"Wave {one['wave']} of {one['topology']} is discarded", one["restore"], True)
                for one in thrown
            ),
            *_down(session, row, "are planned again"),
        ]

    _act(session, number, "replan", order, f"plan incident {number} again", effects)


@incidents.command("accept")
@number_argument
@changes(destructive=True)
@with_session
def accept(session: Session, number: int, order: Order) -> None:
    """Accept that queries are not available as before, and close the incident.

    Everything must be restored already (state catching_up). The present latency of each query becomes its
    usual latency.

    \b
    Example:
      resurge incidents accept 7 --reason "two nodes less until Monday"
    """

    def effects() -> Sequence[Effect]:
        row = session.rest.get(resource("incidents", number))
        permitted(row, "accept")
        down = [
            f"{topology} {query['partition']}"
            for topology in row["topologies"]
            for query in session.rest.rows(
                resource("topologies", topology, "queries"), {"available": "false"}
            )
        ]
        title = f"The present latency of {plural(len(down), 'query', 'queries')} becomes the usual one"
        return [Effect(title, down), Effect("The incident closes; it cannot be opened again.", warning=True)]

    _act(session, number, "accept", order, f"accept the latencies after incident {number}", effects)


@incidents.command("abort")
@number_argument
@changes(destructive=True)
@with_session
def abort(session: Session, number: int, order: Order) -> None:
    """Stop the recovery. Partitions that are down stay down until a recovery is requested.

    \b
    Example:
      resurge incidents abort 7 --reason "the rack comes back by itself" --yes
    """

    def effects() -> Sequence[Effect]:
        row = session.rest.get(resource("incidents", number))
        permitted(row, "abort")
        return [
            *_down(session, row, "stay down"),
            Effect(
                "It cannot be opened again: `resurge topologies recover` restores the rest.", warning=True
            ),
        ]

    _act(session, number, "abort", order, f"abort the recovery of incident {number}", effects)


def _act(
    session: Session, number: int, action: str, order: Order, title: str, effects: Effects | None = None
) -> None:
    act(session, resource("incidents", number, action), order, title=title, effects=effects)


def _down(session: Session, incident: Row, what: str) -> list[Effect]:
    """The partitions without a plan, and the queries that are not available."""
    found: list[Effect] = []
    for topology in incident["topologies"]:
        failed = session.rest.rows(resource("topologies", topology, "partitions"), {"state": "failed"})
        queries = session.rest.rows(resource("topologies", topology, "queries"), {"available": "false"})
        if failed:
            labels = [row["partition"] for row in failed]
            found.append(Effect(f"{plural(len(labels), 'partition')} of {topology} {what}", labels, True))
        if queries:
            labels = [row["partition"] for row in queries]
            are = plural(len(labels), "query is", "queries are")
            found.append(Effect(f"{are} not available in {topology} now", labels))
    return found or [Effect("Every failed partition is in a plan.")]
