"""`resurge what-if`: the predicted recovery if nodes failed now. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from cli import completion
from cli.commands.queries import ROLLBACKS, priorities_read
from cli.numbers import Number, whole
from cli.options import ResurgeCommand, with_session
from cli.output import Column, Row, dump, field, table_of
from cli.paths import resource
from cli.session import Session
from cli.words import count, duration, listed, percent, plural, sparkline

PATIENCE = 40.0
"""Seconds; the server itself gives up after about half of it."""

COMPARED = (
    Column("PLANNER", field("algorithm")),
    Column("FIRST", lambda row: duration(row["first"]), right=True),
    Column("HALF", lambda row: duration(row["half"]), right=True),
    Column("ALL", lambda row: duration(row["all"]) if row["ended"] else "never", right=True),
    Column("AVAILABILITY", lambda row: percent(row["area"]), right=True),
    Column("OF BEST", lambda row: percent(row["share_of_best"]), right=True, least_width=70),
    Column("WAVES", lambda row: count(len(row["waves"])), right=True, least_width=80),
    Column("COURSE", lambda row: _over_time(row), least_width=100),
)


def _over_time(row: Row) -> str:
    return sparkline([(point["at"], point["weighted"]) for point in row["curve"]], row["horizon"])


class Replicas(click.ParamType[str | int]):
    """`running`, `none`, or a whole number."""

    name = "replicas"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | int:
        text = str(value)
        if text not in ("running", "none") and not whole(text):
            self.fail(f"{value!r} is neither `running`, `none` nor a whole number", param, ctx)
        return int(text) if whole(text) else text


@click.command("what-if", cls=ResurgeCommand)
@click.option(
    "--node", "nodes", multiple=True, shell_complete=completion.NODES, help="a node that fails; repeatable"
)
@click.option(
    "--rack", "racks", multiple=True, shell_complete=completion.racks, help="a rack that fails; repeatable"
)
@click.option(
    "--arrivals",
    metavar="SECONDS,...|uniform:LOW:HIGH",
    help="when replacements come after the failure; default: as the provider brings them",
)
@click.option("--planner", "algorithms", multiple=True, help="to compare; `blocking` is one too; repeatable")
@click.option("--priority", "priorities", multiple=True, metavar="TOPOLOGY/QUERY=PRIORITY", help="repeatable")
@click.option("--rollback", type=click.Choice(ROLLBACKS), help="default: the policy of each topology")
@click.option(
    "--replicas",
    type=Replicas(),
    metavar="running|none|BUDGET",
    help="which take over: those that run (default), none, or those of a plan with this budget",
)
@click.option("--seed", type=click.IntRange(min=0), help="random seed of uniform arrivals")
@click.option("--replay-speed", type=Number(), help="speed of the replay, relative to real time")
@click.option("--points", type=click.IntRange(2, 300), help="at most so many points in each curve")
@with_session
def what_if(
    session: Session,
    nodes: tuple[str, ...],
    racks: tuple[str, ...],
    arrivals: str | None,
    priorities: tuple[str, ...],
    **given: Any,
) -> None:
    """Predict the recovery if nodes or racks failed now; nothing is changed.

    \b
    Examples:
      resurge what-if --rack rack-b
      resurge what-if --node node-1 --node node-2 --arrivals 30,60,90 \\
          --planner best_density --planner optimal --planner blocking
      resurge what-if --rack rack-b --priority "hashtags/O3[0]=10" -o json
      resurge what-if --rack rack-b --replicas 6
    """
    if not nodes and not racks:
        raise click.UsageError("say what fails: --node or --rack")
    question: dict[str, Any] = {name: value for name, value in given.items() if value not in (None, ())}
    question |= {"nodes": list(nodes)} if nodes else {}
    question |= {"racks": list(racks)} if racks else {}
    question |= {"arrivals": arrivals_read(arrivals)} if arrivals else {}
    question |= {"priorities": _priorities(priorities)} if priorities else {}
    answer = session.rest.post(resource("what-if"), question, timeout=max(PATIENCE, session.timeout))
    if session.format == "json":
        dump(answer)
        return
    for line in _outcome(answer):
        session.say(line)
    rows = [{**row, "horizon": answer["horizon"]} for row in answer["algorithms"]]
    session.console.print(table_of(rows, COMPARED, width=session.console.width))


def _outcome(answer: Row) -> Iterator[str]:
    """What the failure leaves: queries that stop, lack input or go on without it; what replicas take over."""
    lost = plural(len(answer["failed_nodes"]), "node fails", "nodes fail")
    stop, lack, tentative = list[str](), list[str](), list[str]()
    for outlook in answer["outlooks"]:
        for query in outlook["queries"]:
            name = f"{outlook['topology']}/{query['query']}"
            if query["outcome"] == "stops":
                stop.append(name)
            elif query["outcome"] == "lacks_input":
                lack.append(f"{name} (keeps {percent(query['fidelity'])})")
            elif query["outcome"] == "tentative":
                tentative.append(f"{name} ({percent(query['fidelity'])})")
    stops = plural(len(stop), "query stops", "queries stop")
    lacks = plural(len(lack), "query lacks a part of its input", "queries lack a part of their input")
    lacking = f", {lacks}" if lack else ""
    yield f"{lost} ({listed(answer['failed_nodes'])}): {stops} of {answer['queries']}{lacking}"
    if stop:
        yield f"Stop: {listed(stop)}"
    if tentative:
        yield f"Go on with a part of their input, tentatively: {listed(tentative)}"
    if lack:
        yield f"Lack a part of their input: {listed(lack)}"
    taken = [one["partition"] for outlook in answer["outlooks"] for one in outlook["taken_over"]]
    if taken:
        yield f"Replicas take over {plural(len(taken), 'partition')}: {listed(taken)}"
    unplaced = [partition for outlook in answer["outlooks"] for partition in outlook["unplaced"]]
    if unplaced:
        yield f"No node has room for a replica of {listed(unplaced)}"


def arrivals_read(text: str) -> str | list[float]:
    """Seconds as a list; any other text is passed to the server."""
    try:
        return [Number().convert(part, None, None) for part in text.split(",")]
    except click.BadParameter:
        return text


def _priorities(texts: tuple[str, ...]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for name, priority in priorities_read(texts).items():
        topology, sign, query = name.partition("/")
        if not sign or not topology or not query:
            raise click.UsageError(f"{name!r}: write topology and query as `hashtags/O3[0]=10`")
        found.setdefault(topology, {})[query] = priority
    return found
