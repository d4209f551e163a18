"""`resurge nodes`: the hosts, and taking them in and out of service."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import click

from cli import completion
from cli.acting import act
from cli.asking import Effect, permitted
from cli.failures import CommandError
from cli.filters import state_option
from cli.options import Order, ResurgeGroup, changes, with_session
from cli.output import Column, Row, field, show, show_rows, table_of
from cli.paths import resource
from cli.session import Session
from cli.status import health, state
from cli.words import age, by_name, count, duration, plural, since, size

NODES = (
    Column("NAME", field("name")),
    Column("STATE", health),
    Column("RACK", field("rack")),
    Column("HEARTBEAT", lambda row: age(since(row["last_heartbeat"])), right=True),
    Column("CPU %", lambda row: count(row["cpu_percent"]), right=True, least_width=60),
    Column("PLANNED %", lambda row: _planned(row), right=True, least_width=70),
    Column("PARTITIONS", lambda row: count(row["partitions_total"]), right=True, least_width=80),
    Column("SLOTS", lambda row: count(row["slots"]), right=True, least_width=100),
    Column("MEMORY", lambda row: size(row["memory_bytes"]), right=True, least_width=110),
    Column("DISK FREE", lambda row: size(row["disk_free_bytes"]), right=True, least_width=120),
)  # fmt: skip
NODE = (
    *(Column(column.title.lower(), column.value) for column in NODES),
    Column("address", field("address")),
    Column("standby", lambda row: "yes" if row["standby"] else "no"),
    Column("registered", lambda row: age(since(row["registered_at"]))),
)
HOSTED = (
    Column("TOPOLOGY", field("topology")),
    Column("PARTITION", field("partition")),
    Column("STATE", lambda row: state("partition", row["state"])),
    Column("CPU %", lambda row: count(row["cpu"] * 100), right=True),
    Column("STATE SIZE", lambda row: size(row["state_bytes"]), right=True, least_width=70),
)


def _planned(row: Row) -> str:
    return f"{count(row['planned_percent'])}/{count(row['capacity'])}"


node_argument = click.argument("name", shell_complete=completion.NODES)


@click.group(cls=ResurgeGroup)
def nodes() -> None:
    """The hosts, and taking them in and out of service."""


@nodes.command("list")
@state_option("node")
@click.option("--rack", shell_complete=completion.racks, help="only those in it")
@click.option("--standby", is_flag=True, help="only standby nodes")
@with_session
def list_(session: Session, wanted: tuple[str, ...], rack: str | None, standby: bool) -> None:
    """All nodes with their state, load and how long they have been silent.

    \b
    Examples:
      resurge nodes list --rack rack-b
      resurge nodes list --state lost --state suspect -o json | jq -r '.[].name'
    """
    asked = {"state": list(wanted), "rack": rack, "standby": "true" if standby else None}
    rows = session.rest.rows(resource("nodes"), asked)
    show_rows(session, sorted(rows, key=lambda row: by_name(row["name"])), NODES, empty="No nodes found.")


@nodes.command("show")
@node_argument
@with_session
def show_(session: Session, name: str) -> None:
    """One node and the partitions it hosts."""
    node = session.rest.get(resource("nodes", name))
    show(session, node, NODE)
    if session.format == "table" and node["partitions"]:
        session.console.print()
        session.console.print(table_of(node["partitions"], HOSTED, width=session.console.width))


@nodes.command("drain")
@node_argument
@changes(destructive=True)
@with_session
def drain(session: Session, name: str, order: Order) -> None:
    """Place no new partitions on a node, and move its partitions away with their state.

    \b
    Example:
      resurge nodes drain node-3 --reason "its disk will be replaced" --yes
    """

    def effects() -> list[Effect]:
        partitions = _hosted(session, name, "drain")
        return [
            *_by_topology(
                partitions,
                "moves to other nodes with its state",
                "move to other nodes with their state",
                warning=False,
            ),
            *(_moving() if partitions else []),
            Effect("No new partitions are placed on it until it is activated."),
        ]

    act(session, resource("nodes", name, "drain"), order, title=f"drain {name}", effects=effects)


@nodes.command("activate")
@node_argument
@changes()
@with_session
def activate(session: Session, name: str, order: Order) -> None:
    """Let a drained node host partitions again."""
    act(session, resource("nodes", name, "activate"), order, title=f"activate {name}")


@nodes.command("fail")
@node_argument
@changes(destructive=True)
@with_session
def fail(session: Session, name: str, order: Order) -> None:
    """Kill it without warning: an experiment, only where fault injection is enabled.

    \b
    Example:
      resurge nodes fail node-3 --reason "drill of 12 March"
    """

    def effects() -> list[Effect]:
        partitions = _hosted(session, name, "fail")
        return [
            *_by_topology(partitions, "is lost with its local state", "are lost with their local state"),
            *_predicted(session, name, partitions),
            Effect("The node does not come back; the provider brings up a replacement.", warning=True),
        ]

    act(session, resource("nodes", name, "fail"), order, title=f"fail {name}", effects=effects)


@nodes.command("forget")
@node_argument
@changes(destructive=True)
@with_session
def forget(session: Session, name: str, order: Order) -> None:
    """Remove a node that is lost or has left from all lists. Incidents and the audit trail keep its name.

    \b
    Example:
      resurge nodes forget node-3 --reason "replaced by node-9" --yes
    """

    def effects() -> list[Effect]:
        permitted(session.rest.get(resource("nodes", name)), "forget")
        return [Effect("It disappears from all lists. If it registers again, it is shown again.")]

    act(session, resource("nodes", name, "forget"), order, title=f"forget {name}", effects=effects)


def _hosted(session: Session, name: str, action: str) -> Sequence[Row]:
    """What runs on the node. Raises `RefusedError` where it refuses the action now."""
    node = session.rest.get(resource("nodes", name))
    permitted(node, action)
    found: Sequence[Row] = node["partitions"]
    return found


def _moving() -> list[Effect]:
    return [
        Effect("No query goes back to a checkpoint; latencies are higher for about one epoch."),
        Effect("Partitions that do not fit on other nodes stay until there is room."),
    ]


def _by_topology(partitions: Sequence[Row], one: str, many: str, *, warning: bool = True) -> list[Effect]:
    if not partitions:
        return [Effect("No partition runs there.")]
    names: defaultdict[str, list[str]] = defaultdict(list)
    for row in partitions:
        names[row["topology"]].append(row["partition"])
    return [
        Effect(
            f"{plural(len(labels), 'partition')} of {topology} {one if len(labels) == 1 else many}",
            labels,
            warning,
        )
        for topology, labels in sorted(names.items())
    ]


def _predicted(session: Session, name: str, partitions: Sequence[Row]) -> list[Effect]:
    """The queries that stop and for how long, as the simulator predicts; nothing if it is not available."""
    if not partitions:
        return []
    question: dict[str, Any] = {"nodes": [name], "algorithms": ["best_density"], "points": 2}
    try:
        answer = session.rest.post("what-if/", question)
    except CommandError:
        return []
    failed = answer["failed_queries"]
    if not failed:
        return [Effect("No query stops.")]
    back = answer["algorithms"][0]["all"]
    expected = f", all back after about {duration(back)}" if back is not None else ", not all of them return"
    return [Effect(f"{plural(len(failed), 'query', 'queries')} stop{expected}", failed, True)]
