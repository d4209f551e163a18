"""`resurge topologies`: show and change topologies."""

from __future__ import annotations

from typing import Any

import click

from cli import completion
from cli.acting import act
from cli.asking import Effect, confirmed, permitted
from cli.commands.queries import REPLICATION_OBJECTIVES, REPLICATION_PLANNERS
from cli.figures import available, judged, measured
from cli.filters import state_option
from cli.guarantee import checkpoint_epoch, keys, recover_effects, undeploy_effect
from cli.options import Order, ResurgeGroup, changes, with_session
from cli.output import Column, Row, dump, field, show, show_rows, table_of
from cli.paths import resource
from cli.session import Session
from cli.status import health
from cli.words import DASH, age, count, percent, plural, rate, relative, since

GONE = frozenset({"failed", "stalled"})


def _available(row: Row) -> str:
    return available(row) if judged(row) else DASH


def _worst(row: Row) -> str:
    return relative(row["worst_relative_latency"]) if measured(row) else DASH


def _input(row: Row) -> str:
    return rate(row["input_rate"]) if measured(row) else DASH


TOPOLOGIES = (
    Column("NAME", field("name")),
    Column("STATUS", health),
    Column("AVAILABLE", _available, right=True),
    Column("WORST", _worst, right=True),
    Column("TUPLES/S", _input, right=True, least_width=60),
    Column("EPOCH", lambda row: count(row["committed_epoch"]), right=True, least_width=80),
    Column("CHECKPOINT", checkpoint_epoch, right=True, least_width=80),
    Column("VERSION", lambda row: count(row["version"]), right=True, least_width=100),
    Column("DEPLOYED", lambda row: age(since(row["deployed_at"])), least_width=100),
)
TOPOLOGY = (
    Column("name", field("name")),
    Column("status", health),
    Column("more", lambda row: row["health"]["note"] or None),
    Column("error", field("error")),
    Column("queries available", _available),
    Column("worst relative latency", _worst),
    Column("tuples/s", _input),
    Column("epoch", lambda row: f"{count(row['committed_epoch'])} of {count(row['head_epoch'])}"),
    Column("guarantee", field("guarantee")),
    Column("checkpoint", checkpoint_epoch),
    Column("states of keys", keys),
    Column("generation", lambda row: f"{row['generation']}, applied {row['applied_generation']}"),
    Column("version", lambda row: count(row["version"])),
    Column("loss of a rack", lambda row: _rack_loss(row["rack_exposure"])),
    Column("recovery", lambda row: ", ".join(_policy(row["policy"]))),
    Column("operators", lambda row: str(len(row["graph"]["operators"]))),
    Column("deployed", lambda row: age(since(row["deployed_at"]))),
)

CHOSEN = (
    Column("STEP", lambda row: count(row["step"]), right=True),
    Column("PARTITION", field("partition")),
    Column("FIDELITY", lambda row: percent(row["fidelity"]), right=True),
    Column("GAIN", lambda row: percent(row["gain"]), right=True),
    Column("WHY", field("reason"), least_width=80),
)


def _rack_loss(exposure: Row) -> str:
    """What the worst rack would take down; empty while no rack is known."""
    if not exposure["losses"]:
        return ""
    worst = exposure["losses"][0]
    where = worst["rack"] or worst["node"]
    if exposure["racks"] == 1:
        return f"every query: all nodes are in {where}"
    if exposure["fatal"]:
        others = f" or one of {exposure['fatal'] - 1} more" if exposure["fatal"] > 1 else ""
        return f"every query, if it is {where}{others}"
    queries = plural(worst["queries"], "query", "queries")
    return f"at most {queries}, {percent(worst['share'])} of the priority, if it is {where}"


def _policy(policy: Row) -> list[str]:
    return [
        f"{name} {policy[name]}"
        for name in ("method", "planner", "rollback", "approval", "rebalancing", "overload", "slow_nodes")
    ]


name_argument = click.argument("name", shell_complete=completion.TOPOLOGIES)


@click.group(cls=ResurgeGroup)
def topologies() -> None:
    """Show and change topologies."""


@topologies.command("list")
@state_option("topology", "status")
@click.option("--search", metavar="TEXT", help="in their names")
@with_session
def list_(session: Session, wanted: tuple[str, ...], search: str | None) -> None:
    """All topologies.

    \b
    Examples:
      resurge topologies list
      resurge topologies list --status degraded --status failed -o json | jq -r '.[].name'
    """
    rows = session.rest.rows("topologies/", {"status": list(wanted), "search": search})
    show_rows(session, rows, TOPOLOGIES, empty="No topologies found; see `resurge topologies deploy --help`.")


@topologies.command("show")
@name_argument
@with_session
def show_(session: Session, name: str) -> None:
    """One topology; as JSON with its specification and graph.

    \b
    Example:
      resurge topologies show hashtags -o json | jq .spec > hashtags.json
    """
    show(session, session.rest.get(resource("topologies", name)), TOPOLOGY)


@topologies.command("replication-plan")
@name_argument
@click.option("--budget", type=click.IntRange(min=0), help="partitions that may be replicated")
@click.option("--planner", type=click.Choice(REPLICATION_PLANNERS), help="the algorithm that chooses them")
@click.option(
    "--objective", type=click.Choice(REPLICATION_OBJECTIVES), help="with priorities (weighted) or without"
)
@with_session
def replication_plan(
    session: Session, name: str, budget: int | None, planner: str | None, objective: str | None
) -> None:
    """Which partitions are worth an active replica. Changes nothing; see `resurge replicas`.

    \b
    Examples:
      resurge topologies replication-plan hashtags --budget 6
      resurge topologies replication-plan hashtags --planner greedy -o json | jq .fidelity_after
      resurge topologies replication-plan hashtags --planner optimal --objective plain
    """
    asked = {"budget": None if budget is None else str(budget), "planner": planner, "objective": objective}
    plan = session.rest.get(resource("topologies", name, "replication-plan"), asked)
    if session.format == "json":
        dump(plan)
        return
    going_on = sum(query["tentative"] for query in plan["queries"])
    session.say(
        f"If all of {name} failed at once, {percent(plan['fidelity_after'])} of its output and "
        f"{going_on} of {plural(len(plan['queries']), 'query', 'queries')} would continue with replicas of "
        f"{len(plan['chosen'])} of {plural(plan['total'], 'partition')}; {plan['note']}; "
        f"rates: {plan['rates_note']}"
    )
    session.console.print(table_of(plan["chosen"], CHOSEN, width=session.console.width))


@topologies.command("undeploy")
@name_argument
@changes(destructive=True)
@with_session
def undeploy(session: Session, name: str, order: Order) -> None:
    """Stop it at the next epoch boundary, and keep it stopped.

    \b
    Example:
      resurge topologies undeploy hashtags --reason "moves to the other cluster" --yes
    """

    def effects() -> list[Effect]:
        row = session.rest.get(resource("topologies", name))
        permitted(row, "undeploy")
        return [
            Effect(f"It is {row['status']}; it ends at the next epoch boundary."),
            Effect(
                f"{plural(row['queries_total'], 'query', 'queries')} of it will give no more results.",
                warning=True,
            ),
            undeploy_effect(row),
        ]

    _act(session, name, "undeploy", order, effects)


@topologies.command("recover")
@name_argument
@changes(destructive=True)
@with_session
def recover(session: Session, name: str, order: Order) -> None:
    """Recover now, without waiting for detection.

    \b
    Example:
      resurge topologies recover hashtags --reason "rack-b was powered off"
    """

    def effects() -> list[Effect]:
        row = session.rest.get(resource("topologies", name))
        permitted(row, "recover")
        partitions = session.rest.rows(resource("topologies", name, "partitions"))
        down = [one["partition"] for one in partitions if one["state"] in GONE]
        return recover_effects(row, down)

    _act(session, name, "recover", order, effects)


@topologies.command("rebalance")
@name_argument
@changes()
@with_session
def rebalance(session: Session, name: str, order: Order) -> None:
    """Move running partitions, with their state, to nodes with more capacity.

    It fails if no move would make epochs shorter.

    \b
    Example:
      resurge topologies rebalance hashtags --reason "node-7 and node-8 are new"
    """

    def effects() -> list[Effect]:
        permitted(session.rest.get(resource("topologies", name)), "rebalance")
        return [
            Effect("Running partitions move to other nodes with their state."),
            Effect("No query goes back to a checkpoint; latencies are higher for about one epoch."),
            *_evenness(session, name),
        ]

    path = resource("topologies", name, "rebalance")
    act(session, path, order, title=f"rebalance the partitions of {name}", effects=effects, destructive=False)


def _evenness(session: Session, name: str) -> list[Effect]:
    """How evenly the nodes are used that can take partitions."""
    usable = [
        row
        for row in session.rest.rows(resource("nodes"), {"state": ["alive"]})
        if not row["standby"] and row["capacity"]
    ]
    hosts = {row["node"] for row in session.rest.rows(resource("topologies", name, "partitions"))}
    empty = [row["name"] for row in usable if row["name"] not in hosts]
    alive = plural(len(usable), "node is alive", "nodes are alive")
    found = [
        Effect(f"{alive}, {len(empty)} without partitions of {name}", empty)
        if empty
        else Effect(f"{alive}, all with partitions of {name}.")
    ]
    measured = [row for row in usable if row["predicted_percent"] is not None]
    if len(measured) > 1:
        measured.sort(key=lambda row: row["predicted_percent"] / row["capacity"])
        idlest, busiest = measured[0], measured[-1]
        found.append(Effect(f"Expected CPU: from {_expected(idlest)} to {_expected(busiest)}."))
    return found


def _expected(node: Row) -> str:
    return f"{percent(node['predicted_percent'] / node['capacity'])} of {node['name']}"


@topologies.command("verify")
@name_argument
@changes()
@with_session
def verify(session: Session, name: str, order: Order) -> None:
    """Recompute all outputs from the original input, and compare every row. Exit code 0: all are exact, or
    the guarantee of the topology is bounded, which permits some to deviate: their share is printed.

    It uses none of the engine's operators, and the topology keeps running.

    \b
    Examples:
      resurge topologies verify hashtags --reason "after the loss of rack-b"
      resurge topologies verify hashtags --wait-timeout 30m --reason "before the audit" -o json | jq .result
    """

    def effects() -> list[Effect]:
        row = session.rest.get(resource("topologies", name))
        permitted(row, "verify")
        return [
            Effect(f"Outputs up to epoch {count(row['committed_epoch'])} are recomputed and compared."),
            Effect("It takes up to one core of the control plane's host, at the lowest priority."),
        ]

    path = resource("topologies", name, "verify")
    act(session, path, order, title=f"verify {name}", effects=effects, destructive=False)


@topologies.command("restore")
@name_argument
@click.argument("checkpoint", type=click.IntRange(min=1), shell_complete=completion.checkpoints)
@changes(destructive=True)
@with_session
def restore(session: Session, name: str, checkpoint: int, order: Order) -> None:
    """Roll the whole topology back to a checkpoint in storage, and replay from there.

    CHECKPOINT is its epoch: `resurge checkpoints list NAME` says which are stored.

    \b
    Example:
      resurge topologies restore hashtags 5310 --reason "a bad file was read after it"
    """

    def effects() -> list[Effect]:
        row = session.rest.get(resource("topologies", name))
        permitted(row, "restore")
        later = max(0, row["head_epoch"] - checkpoint)
        return [
            Effect(f"{name} is rolled back as a whole to checkpoint {count(checkpoint)}.", warning=True),
            Effect(f"{plural(later, 'epoch is', 'epochs are')} computed and written again.", warning=True),
            Effect("Later checkpoints are undone: they cannot be restored any more.", warning=True),
        ]

    title = f"roll {name} back to checkpoint {checkpoint}"
    path = resource("topologies", name, "restore")
    act(session, path, order, title=title, effects=effects, body={"checkpoint": checkpoint})


@topologies.command("checkpoint")
@name_argument
@changes()
@with_session
def checkpoint(session: Session, name: str, order: Order) -> None:
    """Take a global checkpoint at the next epoch boundary.

    \b
    Example:
      resurge topologies checkpoint hashtags --reason "before the switch is replaced"
    """
    _act(session, name, "checkpoint", order)


@topologies.command("pause")
@name_argument
@changes()
@with_session
def pause(session: Session, name: str, order: Order) -> None:
    """Take no new input until resumed."""
    _act(session, name, "pause", order)


@topologies.command("resume")
@name_argument
@changes()
@with_session
def resume(session: Session, name: str, order: Order) -> None:
    """Continue after a pause."""
    _act(session, name, "resume", order)


@topologies.command("delete")
@name_argument
@click.option(
    "--outputs",
    type=click.Choice(["keep", "remove"]),
    default="keep",
    show_default=True,
    help="keep its outputs under another name, or remove them",
)
@changes(destructive=True, waits=False)
@with_session
def delete(session: Session, name: str, outputs: str, order: Order) -> None:
    """Delete a topology that is not deployed, with its versions and checkpoints."""
    kept = "kept under another name" if outputs == "keep" else "removed"

    def effects() -> list[Effect]:
        row = session.rest.get(resource("topologies", name))
        permitted(row, "delete")
        return [
            Effect(f"It is {row['status']}, with {plural(row['version'], 'version')}."),
            Effect("Its specification, versions, checkpoints and history cannot be restored.", warning=True),
            Effect(f"Its outputs are {kept}.", warning=outputs == "remove"),
        ]

    order = confirmed(session, order, f"delete {name}", effects)
    session.rest.delete(resource("topologies", name), order.reason, outputs=outputs)
    session.say(f"{name} is deleted")


def _act(session: Session, name: str, action: str, order: Order, effects: Any = None) -> None:
    title = f"{action} {name}" if action != "checkpoint" else f"take a checkpoint of {name}"
    act(session, resource("topologies", name, action), order, title=title, effects=effects)
