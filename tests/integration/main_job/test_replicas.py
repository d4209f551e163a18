"""Replicas on real processes: what they protect goes on without a plan, and every row is the oracle's.

The first tests write themselves where replicas are to be; in the others the control plane places them.
"""

from __future__ import annotations

import time

import pytest

from coordination.paths import Paths
from domain.messages import DriverStatus, Replicas, decode, encode
from harness.stack import Stack
from spark_jobs.sinks.committed import committed_read
from tests.integration.main_job.course import FROZEN, SELDOM, advanced, alive, exact, healthy, homes_of, used

pytestmark = pytest.mark.integration


def status(stack: Stack) -> DriverStatus:
    with stack.zookeeper() as client:
        return decode(client.get(Paths.driver("hashtags"))[0], DriverStatus)


def replicate(stack: Stack, node: str) -> set[str]:
    """Give each partition on this node a replica on another one, and wait until all have caught up."""
    plan = stack.plan()
    other = next(name for name in alive(stack) if name != node)
    mine = {partition for partition, home in homes_of(stack).items() if home == node}
    wanted = Replicas(deployed=plan["deployed"], assignment=dict.fromkeys(mine, other))
    with stack.zookeeper() as client:
        path = Paths.replicas("hashtags")
        client.ensure_path(path)
        client.set(path, encode(wanted))

    def caught_up() -> bool:
        shadows = status(stack).shadows
        return shadows.keys() == mine and all(one.ready and one.lacks <= 1 for one in shadows.values())

    stack.wait_for(caught_up, "replicas that have caught up", timeout=120, pause=SELDOM)
    return mine


def committed(stack: Stack) -> int:
    found = committed_read(stack.home / "outputs" / "hashtags")
    assert found is not None
    return found.epoch


def test_what_is_replicated_goes_on_at_once(stack: Stack) -> None:
    """All partitions of a node that gets SIGKILL have a replica: all queries give output while these act, so
    nothing was put back for it."""
    node = used(stack)[0]
    mine = replicate(stack, node)
    killed = stack.kill_nodes(node)
    stack.wait_for(lambda: status(stack).acting.keys() >= mine, "a takeover", timeout=60, pause=0.05)
    # Of epochs before this moment some may have been computed before the loss.
    head = status(stack).head
    stack.wait_for(lambda: committed(stack) > head, "an epoch without the node", timeout=60, pause=0.05)
    print(f"output of all queries {time.time() - killed:.2f} s after SIGKILL, {len(mine)} taken over")
    assert status(stack).acting.keys() >= mine
    healthy(stack)
    exact(stack)


def test_a_former_primary_that_wakes_up_changes_nothing(stack: Stack) -> None:
    node = used(stack)[0]
    replicate(stack, node)
    go_on = stack.freeze_nodes(node)
    stack.wait_for(lambda: status(stack).acting, "a takeover", timeout=60)
    time.sleep(FROZEN)  # the session of the node has ended by then, whatever ended first
    go_on()
    advanced(stack, 5)
    healthy(stack)
    exact(stack)


def placed(stack: Stack) -> dict[str, str]:
    """Where the control plane wants replicas: partition -> node."""
    with stack.zookeeper() as client:
        return dict(decode(client.get(Paths.replicas("hashtags"))[0], Replicas).assignment)


def all_caught_up(stack: Stack) -> dict[str, str] | None:
    """The replicas, if all that are wanted could act."""
    wanted, shadows = placed(stack), status(stack).shadows
    there = shadows.keys() == wanted.keys() and all(one.ready and one.lacks <= 3 for one in shadows.values())
    return wanted if wanted and there else None


def test_the_control_plane_places_replicas_and_makes_them_anew(stack: Stack) -> None:
    stack.capacities_set(400)
    partitions = len(stack.plan()["assignment"])
    policy = {"replication_mode": "on", "replication_budget": partitions, "reason": "all are to go on"}
    stack.rest.patch("topologies/hashtags/policy/", policy)
    wait = {"timeout": 180, "pause": 0.5}
    stack.wait_for(lambda: len(placed(stack)) == partitions, "a replica of every partition", **wait)
    replicas = stack.wait_for(lambda: all_caught_up(stack), "replicas that have caught up", **wait)
    homes, nodes = homes_of(stack), stack.nodes("alive")
    assert replicas is not None
    assert all(node != homes[partition] for partition, node in replicas.items())
    apart = [p for p, node in replicas.items() if nodes[node]["rack"] != nodes[homes[p]]["rack"]]
    print(f"{len(replicas)} replicas of {partitions} partitions, {len(apart)} in another rack")

    node = used(stack)[0]
    mine = {partition for partition, home in homes.items() if home == node}
    killed = stack.kill_nodes(node)
    stack.wait_for(lambda: taken(stack) >= mine, "a takeover", timeout=60, pause=0.05)
    head = status(stack).head
    stack.wait_for(lambda: committed(stack) > head, "an epoch without the node", timeout=60, pause=0.05)
    print(f"output of all queries {time.time() - killed:.2f} s after SIGKILL, {len(mine)} taken over")
    incident = stack.wait_for_incident(state="closed")
    plans = stack.rest.listing(f"incidents/{incident['number']}/plans/")
    assert not [plan for plan in plans if mine.intersection(plan["restore"])], plans
    healthy(stack)
    assert mine <= {p for p, home in homes_of(stack).items() if home != node}

    def anew() -> bool:
        there = all_caught_up(stack)
        return there is not None and len(there) == partitions and node not in there.values()

    stack.wait_for(anew, "replicas of all partitions, made anew", **wait)
    print(f"a replica of every partition {time.time() - killed:.1f} s after SIGKILL")
    exact(stack)


def test_no_replica_is_left_when_the_policy_wants_none(stack: Stack) -> None:
    stack.rest.patch("topologies/hashtags/policy/", {"replication_mode": "off", "reason": "enough"})
    stack.wait_for(lambda: not status(stack).shadows, "no replicas", timeout=60)
    advanced(stack, 3)
    exact(stack)


def taken(stack: Stack) -> set[str]:
    """What replicas act for; a plan that has adopted it names it no longer."""
    return set(status(stack).acting)
