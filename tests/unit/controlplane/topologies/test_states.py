"""The states of partitions, derived from the reports of a driver."""

from __future__ import annotations

import pytest

from controlplane.topologies.choices import QueryStatus
from controlplane.topologies.states import partition_states, query_health
from domain.messages import DriverState
from tests.simulation.incident_graphs import branches

GRAPH = branches("t", 2)  # Source[i] -> A[i] -> B[i]; A -> All[0]; Source[i] -> Unused[i]


def states(
    state: DriverState,
    *,
    failed: tuple[str, ...] = (),
    behind: tuple[str, ...] | None = None,
    before: str = "running",
    awaited: tuple[str, ...] = (),
) -> dict[str, str]:
    previous = dict.fromkeys(GRAPH.partitions, before)
    found = partition_states(
        GRAPH, state=state, failed=failed, previous=previous, behind=behind, awaited=awaited
    )
    return {partition: str(one) for partition, one in found.items()}


def test_while_some_are_down_others_catch_up_one_by_one() -> None:
    found = states("degraded", failed=("B[0]",), behind=("A[1]",))
    assert (found["B[0]"], found["A[1]"], found["Source[1]"]) == ("failed", "replaying", "running")
    assert states("degraded", failed=("B[0]",), behind=())["A[1]"] == "running"


def test_what_a_plan_restores_is_not_shown_as_failed_while_its_node_gets_ready() -> None:
    assert states("degraded", failed=("B[0]",), awaited=("B[0]",), before="restoring")["B[0]"] == "restoring"
    assert states("degraded", failed=("B[0]",), awaited=("B[0]",))["B[0]"] == "failed"
    assert states("degraded", failed=("B[0]",), before="restoring")["B[0]"] == "failed"


def test_downstream_of_what_is_down_nothing_flows() -> None:
    found = states("degraded", failed=("Source[0]",), behind=("B[1]",))
    assert (found["A[0]"], found["All[0]"], found["B[0]"]) == ("stalled", "stalled", "stalled")
    assert (found["B[1]"], found["A[1]"]) == ("replaying", "running")


def test_a_driver_that_replays_and_names_no_partition_means_all() -> None:
    assert set(states("replaying", behind=()).values()) == {"replaying"}
    assert set(states("restoring", behind=()).values()) == {"restoring"}
    found = states("replaying", behind=("A[1]",))
    assert (found["A[1]"], found["A[0]"]) == ("replaying", "running")


@pytest.mark.parametrize(("before", "after"), [("replaying", "replaying"), ("running", "running")])
def test_a_message_that_names_no_partitions_behind_changes_nothing(before: str, after: str) -> None:
    assert states("degraded", failed=("B[0]",), before=before)["A[1]"] == after
    assert states("replaying", before=before)["A[1]"] == after


def test_all_run_once_the_driver_does() -> None:
    assert set(states("running", before="replaying").values()) == {"running"}


@pytest.mark.parametrize(
    ("state", "restored", "expected"),
    [
        ("restoring", False, (QueryStatus.AVAILABLE, True)),
        ("restoring", True, (QueryStatus.RECOVERING, False)),
        ("waiting_for_nodes", False, (QueryStatus.RECOVERING, False)),
        # Its latency decides whether it has caught up.
        ("replaying", True, (QueryStatus.AVAILABLE, True)),
    ],
)
def test_a_restore_elsewhere_changes_nothing_for_a_query(
    state: DriverState, restored: bool, expected: tuple[QueryStatus, bool]
) -> None:
    found = query_health(
        failed=False,
        restored=restored,
        healthy=True,
        state=state,
        previous=QueryStatus.AVAILABLE,
        was_available=True,
    )
    assert found == expected
