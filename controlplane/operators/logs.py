"""The end of the logs that have to do with an operator: its topology's driver, the nodes that have its
partitions, and those that the newest incident of the topology lost, where what failed ran. They are read
where the control plane runs; what is on another host is named, with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from django.conf import settings

from controlplane.errors import Invalid
from controlplane.incidents.models import Incident
from controlplane.operators.log_files import (
    ALL_BYTES,
    MOST_BYTES,
    LogEnd,
    LogFile,
    driver_log,
    end_of,
    name_is_plain,
    node_logs,
)
from controlplane.operators.log_lines import Level, LogLine, lines_of, merged, wanted
from controlplane.topologies.models import Partition, Topology
from controlplane.topologies.operators import operator_find

MOST_LINES: Final = 500
MOST_NODES: Final = 8
"""Of which logs are read without a choice of a node."""


class ShownLine(msgspec.Struct, frozen=True, kw_only=True):
    """at: ISO 8601 in UTC; None where the log says no time."""

    source: str
    at: str | None
    level: str
    text: str


class LogSource(msgspec.Struct, frozen=True, kw_only=True):
    """A log that was read. whole: from its beginning on."""

    name: str
    whole: bool


class UnreadLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log that was not read, and why."""

    name: str
    reason: str


class OperatorLog(msgspec.Struct, frozen=True, kw_only=True):
    """nodes: all that have partitions of the operator, then those that the newest incident of the topology
    lost. matching: lines that were asked for, of which `lines` are the last ones, the newest last."""

    topology: str
    operator: str
    nodes: list[str]
    sources: list[LogSource]
    unread: list[UnreadLog]
    matching: int
    lines: list[ShownLine]


def operator_log(
    *, topology: str, operator: str, text: str = "", level: Level = "debug", node: str = "", limit: int = 200
) -> OperatorLog:
    """node: only its logs. Raises `Missing`, and `Invalid` for a node that is none of `nodes`."""
    row, _, found = operator_find(topology, operator)
    placed = (
        Partition.objects.filter(topology=row, operator=found.name, node__isnull=False)
        .order_by("index")
        .values_list("node__name", flat=True)
    )
    nodes = list(dict.fromkeys([*placed, *_lost(row)]))
    if node and node not in nodes:
        there = ", ".join(nodes[:MOST_NODES]) or "none"
        raise Invalid(
            "node", f"no partition of {found.name} is on it, nor was it lost; nodes to ask for: {there}"
        )
    home = settings.RESURGE.home
    read, unread = _read(home, row.name, [node] if node else nodes, driver=not node)
    every = merged([lines_of(file.source, end.text) for file, end in read])
    matching = [line for line in every if wanted(line, text=text, level=level)]
    return OperatorLog(
        topology=row.name,
        operator=found.name,
        nodes=nodes,
        sources=[LogSource(name=file.source, whole=end.whole) for file, end in read],
        unread=unread,
        matching=len(matching),
        lines=[_shown(line) for line in matching[-min(limit, MOST_LINES) :]],
    )


def _lost(topology: Topology) -> list[str]:
    """By the newest incident of the topology."""
    newest = Incident.objects.filter(topologies=topology).order_by("-number").first()
    return [] if newest is None else list(newest.failed_nodes.order_by("name").values_list("name", flat=True))


def _read(
    home: Path, topology: str, nodes: list[str], *, driver: bool
) -> tuple[list[tuple[LogFile, LogEnd]], list[UnreadLog]]:
    groups: list[tuple[str, list[LogFile]]] = [("driver", [driver_log(home, topology)])] if driver else []
    unread: list[UnreadLog] = []
    for name in nodes[:MOST_NODES]:
        if name_is_plain(name):
            groups.append((name, node_logs(home, topology, name)))
        else:
            unread.append(UnreadLog(name=name, reason="its name is not one that a log can have"))
    if len(nodes) > MOST_NODES:
        left = f"{len(nodes) - MOST_NODES} further nodes"
        unread.append(UnreadLog(name=left, reason=f"{MOST_NODES} are read at once; choose a node"))
    most = min(MOST_BYTES, ALL_BYTES // max(1, sum(len(files) for _, files in groups)))
    read: list[tuple[LogFile, LogEnd]] = []
    for name, files in groups:
        there = False
        for file in files:
            try:
                end = end_of(home, file, most)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                unread.append(UnreadLog(name=file.source, reason=f"it cannot be read: {error.strerror}"))
            else:
                read.append((file, end))
            there = True
        if not there:
            unread.append(UnreadLog(name=name, reason=_absence(name)))
    return read, unread


def _absence(name: str) -> str:
    if name == "driver":
        return "it has not run yet, or runs on another host: only logs of this host can be read here"
    return "it keeps no log on this host; read it on the host that the node runs on"


def _shown(line: LogLine) -> ShownLine:
    at = None if line.at is None else line.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return ShownLine(source=line.source, at=at, level=line.level, text=line.text)
