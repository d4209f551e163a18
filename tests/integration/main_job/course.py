"""What tests ask of the main job while one failure follows the other."""

from __future__ import annotations

from typing import Any

from controlplane.verification.verifying import topology_verify
from harness.stack import Stack

QUERIES = 15
EPOCH = 3.0
"""Seconds. With the pipeline's own epochs of one second these tests would take twice the processor time."""
FIELDS: dict[str, Any] = {"epoch_interval": EPOCH, "sink": {"kind": "parquet", "compact_s": 5 * EPOCH}}
"""Files of five epochs become one, under all failures."""
RATE = 500
"""Rows of input per second. Each comparison recomputes all of them since the start."""
SELDOM = 0.5
"""Seconds between two looks at what takes seconds: with 0.2 the answers took a tenth of a core."""
FROZEN = 5.0
"""Seconds; sessions of the test stack last four."""


def healthy(stack: Stack, *, timeout: float = 240.0) -> dict[str, Any]:
    """Running, every query available, caught up, no incident open."""

    def is_healthy() -> dict[str, Any] | None:
        topology = stack.topology()
        caught_up = topology["head_epoch"] - topology["committed_epoch"] <= 3
        good = topology["status"] == "running" and topology["queries_available"] == QUERIES
        return topology if good and caught_up and not opened(stack) else None

    found = stack.wait_for(
        is_healthy, "15 available queries and no open incident", timeout=timeout, pause=SELDOM
    )
    assert found is not None
    return found


def exact(stack: Stack) -> None:
    """Nothing missing, nothing twice, nothing different, in any of the fifteen queries. `manage.py verify` is
    the same in a process of its own, which takes seconds to start."""
    spec = stack.topology()["spec"]
    found = topology_verify(spec=spec, home=stack.home, outputs=stack.home / "outputs")
    assert len(found.queries) == QUERIES
    for query in found.queries:
        assert query.clean, query
        assert query.found == query.expected > 0, query


def advanced(stack: Stack, epochs: int) -> None:
    """Wait until this many further epochs are committed."""
    start = stack.wait_for(stack.topology, "an answer")["committed_epoch"]
    stack.wait_for(
        lambda: stack.topology()["committed_epoch"] >= start + epochs,
        f"{epochs} more epochs",
        timeout=120,
        pause=SELDOM,
    )


def alive(stack: Stack) -> list[str]:
    return sorted(stack.nodes("alive"))


def homes_of(stack: Stack) -> dict[str, str]:
    """Partition -> node. The plan does not know what replicas have taken over since."""
    rows = stack.rest.listing("topologies/hashtags/partitions/")
    return {str(row["partition"]): str(row["node"]) for row in rows if row["node"]}


def used(stack: Stack) -> list[str]:
    """Nodes with partitions; after some failures there are also nodes without."""
    return sorted(set(homes_of(stack).values()))


def operation_ended(stack: Stack, operation: str) -> dict[str, Any]:
    """How an operation that was asked for has ended."""

    def ended() -> dict[str, Any] | None:
        row: dict[str, Any] = stack.rest.get(f"operations/{operation}/")
        return row if row["ended_at"] else None

    found = stack.wait_for(ended, "the end of the operation", timeout=60, pause=SELDOM)
    assert found is not None
    return found


def opened(stack: Stack) -> list[dict[str, Any]]:
    """Incidents that are not over."""
    return [row for row in stack.incidents() if row["state"] not in ("closed", "aborted")]


def standby_of(stack: Stack) -> str:
    """The standby that there is, or that comes."""
    found = stack.wait_for(
        lambda: next((name for name, row in stack.nodes("alive").items() if row["standby"]), None),
        "a standby",
        timeout=120,
    )
    assert found is not None
    return found


def stopped(stack: Stack) -> None:
    """Undeploy the topology, and wait until it has stopped."""
    stack.rest.post("topologies/hashtags/undeploy/", {"reason": "the next test"})
    stack.wait_for_status("stopped")


def incidents(stack: Stack) -> int:
    return len(stack.incidents())


def lose(stack: Stack, *names: str) -> None:
    """Kill nodes and wait until they are recorded as lost, which opens the incident; before, also while they
    are suspected, the installation still looks healthy."""
    stack.kill_nodes(*names)
    stack.wait_for(
        lambda: set(names) <= stack.nodes("lost").keys(), f"the loss of {', '.join(names)}", timeout=30
    )
