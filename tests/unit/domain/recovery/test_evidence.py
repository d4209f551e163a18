"""Two pieces of evidence confirm a loss at once. One alone, or one about another process, is no loss."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.messages import ExecutorGone, ExecutorsSeen
from domain.recovery.evidence import FRESH, TOGETHER
from domain.recovery.liveness import (
    DriverSaw,
    ExecutorsListed,
    Instruction,
    LifelineCut,
    LifelineRestored,
    NodeAlive,
    NodesListed,
    NodesSuspected,
    SessionConnected,
    SessionInterrupted,
    SuspicionCleared,
)
from tests.unit.domain.recovery.test_detector import LIMITS, Cluster, lost, registration

TOLD = 0.05


def seen(present: tuple[str, ...] = (), **gone: tuple[str, float]) -> ExecutorsSeen:
    return ExecutorsSeen(
        pid=1,
        present=list(present),
        gone={node: ExecutorGone(session=session, at=at) for node, (session, at) in gone.items()},
    )


def cut(cluster: Cluster, *nodes: str, session: str = "a") -> list[Instruction]:
    cluster.at += TOLD
    return cluster.detector.handle_stimulus(*(LifelineCut(cluster.at, node, session) for node in nodes))


def told(cluster: Cluster, **drivers: ExecutorsSeen) -> list[Instruction]:
    cluster.at += TOLD
    return cluster.detector.handle_stimulus(ExecutorsListed(cluster.at, drivers))


def died(cluster: Cluster, *nodes: str) -> None:
    """Their processes have ended; nothing has noticed yet."""
    cluster.beating -= set(nodes)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster("n1", "n2", "n3").calm()


# ---- the rule ------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["lifeline first", "executor first"])
def test_two_pieces_confirm_a_loss_at_once_whichever_comes_first(cluster: Cluster, order: str) -> None:
    died(cluster, "n1")
    gone = seen(("n2", "n3"), n1=("a", 7.0))
    if order == "lifeline first":
        suspected = cut(cluster, "n1")
        assert [type(one) for one in suspected] == [NodesSuspected], "nothing is placed there meanwhile"
        said = told(cluster, counts=gone)
    else:
        assert told(cluster, counts=gone) == []
        said = cut(cluster, "n1")
    assert lost(said) == {
        "n1": "its agent's connection was closed and refused, and the driver of counts lost its executor"
    }
    assert cluster.run(5) == [], "its ephemeral is still there"


def test_several_drivers_are_named(cluster: Cluster) -> None:
    cut(cluster, "n1")
    said = told(cluster, words=seen(n1=("a", 7.0)), counts=seen(n1=("a", 7.1)))
    assert "the drivers of counts, words lost their executors on it" in lost(said)["n1"]


def test_a_refused_lifeline_alone_is_a_suspicion_that_the_next_heartbeats_clear(cluster: Cluster) -> None:
    assert [type(one) for one in cut(cluster, "n1")] == [NodesSuspected]
    said = cluster.run(1.0)
    assert [type(one) for one in said] == [SuspicionCleared]
    assert cluster.run(30) == []


def test_a_lost_executor_alone_is_nothing(cluster: Cluster) -> None:
    assert told(cluster, counts=seen(("n2",), n1=("a", 7.0))) == []
    assert cluster.run(30) == []


def test_an_executor_that_is_back_is_no_evidence_any_more(cluster: Cluster) -> None:
    told(cluster, counts=seen(n1=("a", 7.0)))
    told(cluster, counts=seen(("n1",)))
    assert not lost(cut(cluster, "n1"))


def test_a_driver_that_has_ended_is_no_witness_any_more(cluster: Cluster) -> None:
    told(cluster, counts=seen(n1=("a", 7.0)))
    told(cluster)
    assert not lost(cut(cluster, "n1"))


def test_a_lifeline_that_is_back_is_no_evidence_any_more(cluster: Cluster) -> None:
    cut(cluster, "n1")
    said = cluster.detector.handle_stimulus(LifelineRestored(cluster.at, "n1"))
    assert [type(one) for one in said] == [SuspicionCleared]
    assert not lost(told(cluster, counts=seen(n1=("a", 7.0))))


def test_the_first_heartbeat_read_after_the_cut_may_be_the_last_of_the_dead(cluster: Cluster) -> None:
    cut(cluster, "n1")
    cluster.run(0.5)
    died(cluster, "n1")
    assert "n1" in lost(told(cluster, counts=seen(n1=("a", 7.0))))


def test_a_heartbeat_written_after_the_cut_contradicts_it(cluster: Cluster) -> None:
    """So a firewall that refuses connections loses no node, even if its executor crashes."""
    cut(cluster, "n1")
    cluster.run(1.0)
    assert not lost(told(cluster, counts=seen(n1=("a", 7.0))))


def test_a_heartbeat_that_arrives_late_does_not_bring_the_dead_back(cluster: Cluster) -> None:
    """It was sent just before; a live process sends the next one within an interval."""
    cut(cluster, "n1")
    assert lost(told(cluster, counts=seen(n1=("a", 7.0))))
    assert cluster.run(0.5) == []
    died(cluster, "n1")
    assert cluster.run(5) == []
    cluster.beating.add("n1")
    assert [one.returned for one in cluster.run(1) if isinstance(one, NodeAlive)] == [True]


# ---- what it concerns, and for how long ----------------------------------------------------------


def test_the_lifeline_of_another_session_is_no_evidence(cluster: Cluster) -> None:
    assert cut(cluster, "n1", session="before") == []
    assert not lost(told(cluster, counts=seen(n1=("a", 7.0))))


def test_the_executor_of_another_session_is_no_evidence(cluster: Cluster) -> None:
    cut(cluster, "n1")
    assert not lost(told(cluster, counts=seen(n1=("before", 7.0))))


def test_a_new_session_of_the_process_begins_without_evidence(cluster: Cluster) -> None:
    cut(cluster, "n1")
    cluster.registered["n1"] = registration("n1", session="b", at=20.0)
    cluster.detector.handle_stimulus(NodesListed(cluster.at, tuple(cluster.registered.values())))
    assert not lost(told(cluster, counts=seen(n1=("b", 7.0))))


def test_a_refused_lifeline_expires(cluster: Cluster) -> None:
    died(cluster, "n1")
    cut(cluster, "n1")
    told(cluster, words=seen(("n1",)))
    cluster.at += FRESH
    assert not lost(told(cluster, counts=seen(n1=("a", 7.0))))


def test_a_lost_executor_expires_however_often_it_is_told(cluster: Cluster) -> None:
    for _ in range(int(FRESH) + 2):
        told(cluster, counts=seen(n1=("a", 7.0)))
        cluster.run(1.0)
    assert not lost(cut(cluster, "n1"))
    assert "n1" in lost(told(cluster, counts=seen(n1=("a", 30.0)))), "another executor, lost just now"


# ---- together ------------------------------------------------------------------------------------


def test_nodes_that_die_together_are_given_up_together(cluster: Cluster) -> None:
    died(cluster, "n1", "n2")
    cut(cluster, "n1", "n2")
    assert not lost(told(cluster, counts=seen(n1=("a", 7.0)))), "n2 may follow"
    assert cluster.detector.hurried
    said = told(cluster, counts=seen(n1=("a", 7.0), n2=("a", 7.1)))
    assert set(lost(said)) == {"n1", "n2"}


def test_a_confirmed_loss_does_not_wait_long_for_others(cluster: Cluster) -> None:
    died(cluster, "n1")
    cut(cluster, "n1", "n2")
    told(cluster, counts=seen(n1=("a", 7.0)))
    cluster.at += TOGETHER
    assert set(lost(told(cluster, counts=seen(n1=("a", 7.0))))) == {"n1"}


def test_a_confirmed_loss_waits_once_even_if_others_keep_coming(cluster: Cluster) -> None:
    died(cluster, "n1")
    gone = seen(n1=("a", 7.0))
    cut(cluster, "n1", "n2")
    told(cluster, counts=gone)
    cluster.at += 0.8 * TOGETHER
    assert not lost(cut(cluster, "n3"))
    assert set(lost(cut(cluster, "n2"))) == {"n1"}


def test_a_node_that_is_lost_stays_so_while_others_are_unclear(cluster: Cluster) -> None:
    died(cluster, "n1", "n2")
    cut(cluster, "n1")
    assert set(lost(told(cluster, counts=seen(n1=("a", 7.0))))) == {"n1"}
    told(cluster, counts=seen(n1=("a", 8.0)))
    said = cut(cluster, "n1", "n2")
    assert [set(one.nodes) for one in said if isinstance(one, NodesSuspected)] == [{"n2"}]


# ---- nodes without executors ---------------------------------------------------------------------


def test_where_no_driver_can_tell_silence_confirms_a_refused_lifeline(cluster: Cluster) -> None:
    died(cluster, "n1")
    cut(cluster, "n1")
    assert not lost(cluster.run(LIMITS.refused - 0.5))
    said = cluster.run(1.0)
    assert "refused, and its heartbeat has been silent for" in lost(said)["n1"]


@pytest.mark.parametrize("contradicted", ["by an executor", "by work"])
def test_silence_confirms_nothing_while_a_driver_sees_the_node(cluster: Cluster, contradicted: str) -> None:
    died(cluster, "n1")
    cut(cluster, "n1")
    if contradicted == "by an executor":
        told(cluster, counts=seen(("n1",)))
        assert not lost(cluster.run(LIMITS.gone + 1))
        return
    for _ in range(int(2 * LIMITS.gone) + 2):
        cluster.detector.handle_stimulus(DriverSaw(cluster.at, "counts", frozenset(), frozenset({"n1"})))
        assert not lost(cluster.run(0.5))


# ---- the brake -----------------------------------------------------------------------------------


def test_while_our_own_session_is_interrupted_no_evidence_counts(cluster: Cluster) -> None:
    died(cluster, "n1", "n2", "n3")
    cluster.detector.handle_stimulus(SessionInterrupted(cluster.at))
    assert cut(cluster, "n1", "n2", "n3") == []
    assert told(cluster, counts=seen(n1=("a", 7.0), n2=("a", 7.0), n3=("a", 7.0))) == []


def test_within_the_grace_period_two_pieces_need_silence_as_a_third(cluster: Cluster) -> None:
    cluster.detector.handle_stimulus(SessionInterrupted(cluster.at))
    cluster.at += 1
    cluster.detector.handle_stimulus(SessionConnected(cluster.at))
    cluster.run(0.5)
    died(cluster, "n1")
    cut(cluster, "n1")
    gone = seen(n1=("a", 7.0))
    assert not lost(told(cluster, counts=gone))
    assert not lost(cluster.run(LIMITS.refused - 0.5))
    assert set(lost(cluster.run(1.0))) == {"n1"}


def test_within_the_grace_period_silence_alone_confirms_no_refused_lifeline(cluster: Cluster) -> None:
    cluster.detector.handle_stimulus(SessionInterrupted(cluster.at))
    cluster.at += 1
    cluster.detector.handle_stimulus(SessionConnected(cluster.at))
    died(cluster, "n1", "n2", "n3")
    cut(cluster, "n1", "n2", "n3")
    assert not lost(cluster.run(4))


class World:
    """Nodes that die, and links that are cut: what detection is told follows from that. The driver and
    ZooKeeper reach all nodes that live, so heartbeats of these go on."""

    def __init__(self) -> None:
        self.names = [f"n{index}" for index in range(6)]
        self.cluster = Cluster(*self.names).calm()
        self.dead: set[str] = set()
        self.crashed: dict[str, float] = {}
        self.said: list[Instruction] = []
        self.tell()

    def tell(self) -> None:
        gone: Mapping[str, tuple[str, float]] = {name: ("a", at) for name, at in self.crashed.items()}
        present = tuple(name for name in self.names if name not in gone)
        self.said += told(self.cluster, counts=seen(present, **gone))

    def kill(self, nodes: set[str]) -> None:
        died(self.cluster, *nodes)
        self.dead |= nodes
        self.said += cut(self.cluster, *sorted(nodes))
        self.crashed |= dict.fromkeys(nodes, self.cluster.at)

    def refuse(self, nodes: set[str]) -> None:
        """A firewall resets the connections of the coordinator to these nodes, and refuses new ones."""
        self.said += cut(self.cluster, *sorted(nodes))

    def crash(self, nodes: set[str]) -> None:
        self.crashed |= dict.fromkeys(nodes, self.cluster.at)
        self.tell()

    def restart(self, nodes: set[str]) -> None:
        for name in nodes - self.dead:
            self.crashed.pop(name, None)

    def register(self, nodes: set[str]) -> None:
        """Processes that live get new sessions, which detection sees before anything else happens."""
        for name in nodes - self.dead:
            session = f"s{self.cluster.at}"
            self.cluster.registered[name] = registration(name, session=session, at=self.cluster.at)
        self.run(0.5)

    def run(self, seconds: float) -> None:
        self.said += self.cluster.run(seconds)


def test_a_network_cut_between_the_coordinator_and_half_of_the_nodes_loses_none() -> None:
    world = World()
    half = set(world.names[:3])
    world.refuse(half)
    for _ in range(40):
        world.run(0.5)
        world.tell()
    assert not lost(world.said)
    world.kill({"n5"})
    world.tell()
    assert set(lost(world.said)) == {"n5"}, "and what dies meanwhile is still found at once"


def test_a_cut_that_also_silences_heartbeats_waits_for_the_drivers_or_the_registrations() -> None:
    """Coordinator and ZooKeeper on one side, half of the nodes on the other: a short cut loses none."""
    world = World()
    half = set(world.names[:3])
    world.cluster.beating -= half
    world.refuse(half)
    for _ in range(int(LIMITS.session_timeout / 0.5) - 1):
        world.run(0.5)
        world.tell()
    world.cluster.beating |= half
    world.run(20)
    assert not lost(world.said)


STEPS = st.tuples(
    st.sampled_from(
        ["kill", "refuse", "crash", "restart", "tell", "run", "interrupt", "connect", "register"]
    ),
    st.sets(st.sampled_from([f"n{index}" for index in range(6)]), min_size=1, max_size=4),
    st.sampled_from([0.1, 0.3, 0.5, 1.0, 3.0]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_only_nodes_that_died_or_look_dead_in_both_ways_at_once_are_lost(
    steps: list[tuple[str, set[str], float]],
) -> None:
    """In any order of deaths, cuts, crashes of executors and trouble of our own session: a node that lives is
    lost only if a cut and a crash hit it between two of its heartbeats."""
    world = World()
    interrupted = False
    doubly: set[str] = set()
    hit: dict[str, dict[str, float]] = {"refuse": {}, "crash": {}}
    for what, nodes, seconds in steps:
        before = len(world.said)
        match what:
            case "kill":
                world.kill(nodes)
            case "refuse":
                world.refuse(nodes)
            case "crash":
                world.crash(nodes)
            case "restart":
                world.restart(nodes)
            case "interrupt":
                interrupted = True
                world.cluster.detector.handle_stimulus(SessionInterrupted(world.cluster.at))
            case "connect":
                interrupted = False
                world.cluster.detector.handle_stimulus(SessionConnected(world.cluster.at))
            case "register":
                world.register(nodes if not interrupted else set())
            case "tell":
                world.tell()
            case _:
                world.run(seconds)
        for name in nodes if what in hit else ():
            hit[what][name] = world.cluster.at
            moments = [by[name] for by in hit.values() if name in by]
            if len(moments) == 2 and max(moments) - min(moments) <= FRESH:
                doubly.add(name)
        world.cluster.detector.validate_state()
        new = lost(world.said[before:])
        assert not (interrupted and new)
        assert set(new) <= world.dead | doubly, new
        back = {one.registration.id for one in world.said[before:] if isinstance(one, NodeAlive)}
        assert not back & world.dead - set(new), "a dead node does not come back"
