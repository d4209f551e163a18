"""States of partitions and queries, derived from what the driver reports. No database here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from controlplane.topologies.choices import PartitionState, QueryStatus, TopologyStatus
from domain.messages import DriverState
from domain.topology import Topology as TopologyGraph

_TOPOLOGY: dict[DriverState, TopologyStatus] = {
    "restoring": TopologyStatus.RECOVERING,
    "replaying": TopologyStatus.RECOVERING,
    "running": TopologyStatus.RUNNING,
    "degraded": TopologyStatus.DEGRADED,
    "paused": TopologyStatus.PAUSED,
    "completed": TopologyStatus.COMPLETED,
    "failed": TopologyStatus.FAILED,
    "stopped": TopologyStatus.STOPPED,
}
_UNCHANGING: frozenset[DriverState] = frozenset(
    {"starting", "waiting_for_nodes", "paused", "completed", "failed"}
)
_CATCHING_UP: frozenset[DriverState] = frozenset({"restoring", "replaying", "degraded"})
_FINAL = frozenset({TopologyStatus.COMPLETED, TopologyStatus.FAILED, TopologyStatus.STOPPED})


def topology_status(state: DriverState, *, committed: int, wanted: bool, current: str) -> TopologyStatus:
    """The topology's status for a driver in `state`.

    A starting driver means deployment before the first committed epoch and
    recovery after it. A driver that ended by itself is not one that was asked to:
    `stopped` counts only when it is not wanted running, else it is about to be
    started again. While a stop is awaited, nothing but an end changes the status.
    """
    status = _TOPOLOGY.get(state)
    if status is TopologyStatus.STOPPED and wanted:
        status = None
    if status is None:
        status = TopologyStatus.RECOVERING if committed > 0 else TopologyStatus.DEPLOYING
    if not wanted and status not in _FINAL:
        return TopologyStatus(current)
    if not wanted and status is TopologyStatus.FAILED:
        return TopologyStatus.STOPPED
    return status


def partition_states(
    graph: TopologyGraph,
    *,
    state: DriverState,
    failed: Collection[str],
    previous: Mapping[str, str],
    behind: Collection[str] | None = None,
    awaited: Collection[str] = (),
) -> dict[str, PartitionState]:
    """The state of every partition, given those without a node or absent (`failed`) and those that run and
    have not caught up (`behind`, None where the message does not say: then they stay as they were). awaited:
    those of `failed` whose node lives, so that they begin as soon as it can work.

    Whatever is downstream of a failed partition is stalled while the driver is degraded.
    """
    lost = set(failed)
    stalled = downstream(graph, lost) if state == "degraded" else set()
    states: dict[str, PartitionState] = {}
    for partition in graph.partitions:
        before = PartitionState(previous.get(partition, PartitionState.STARTING))
        if partition in lost:
            begins = before is PartitionState.RESTORING and partition in awaited
            states[partition] = PartitionState.RESTORING if begins else PartitionState.FAILED
        elif state in _CATCHING_UP and _is_behind(partition, state, before, behind):
            restoring = state == "restoring" or (before is PartitionState.RESTORING and behind is None)
            states[partition] = PartitionState.RESTORING if restoring else PartitionState.REPLAYING
        elif partition in stalled:
            states[partition] = PartitionState.STALLED
        elif state == "stopped":
            states[partition] = PartitionState.STARTING
        elif state in _UNCHANGING:
            states[partition] = before
        else:
            states[partition] = PartitionState.RUNNING
    return states


def _is_behind(
    partition: str, state: DriverState, before: PartitionState, behind: Collection[str] | None
) -> bool:
    """Whether a partition that runs has yet to catch up. A driver that restores or replays and names none
    means all of them."""
    if behind:
        return partition in behind
    if behind is None:
        unknown = state != "degraded" and before not in (PartitionState.RUNNING, PartitionState.STALLED)
        return unknown or before in (PartitionState.RESTORING, PartitionState.REPLAYING)
    return state != "degraded"


def downstream(graph: TopologyGraph, origins: Iterable[str]) -> set[str]:
    """Partitions fed, directly or not, by `origins`; without `origins` that nothing feeds back into."""
    reached: set[str] = set()
    pending = list(origins)
    while pending:
        for partition in graph.downstream(pending.pop()):
            if partition not in reached:
                reached.add(partition)
                pending.append(partition)
    return reached


def query_health(
    *,
    failed: bool,
    restored: bool,
    healthy: bool,
    state: DriverState,
    previous: str,
    was_available: bool,
    parked: bool = False,
) -> tuple[QueryStatus, bool]:
    """A query's status and whether it is available.

    `failed` says that one of its partitions is, `restored` that one is being restored or
    replays; `healthy` is the verdict of the availability tracker. A query that never was
    available is starting; one whose topology was paused or has completed stays as it was.
    A restore elsewhere changes nothing for a query.
    """
    if state == "stopped":
        return QueryStatus.STARTING, False
    if failed or state == "failed":
        return QueryStatus.PARKED if parked else QueryStatus.FAILED, False
    if state in ("paused", "completed"):
        return QueryStatus(previous), was_available
    if healthy and (state in ("running", "degraded", "replaying") or (state == "restoring" and not restored)):
        return QueryStatus.AVAILABLE, True
    if previous == QueryStatus.STARTING and state not in ("restoring", "replaying", "degraded"):
        return QueryStatus.STARTING, False
    return QueryStatus.RECOVERING, False
