"""Which nodes are declared lost, when, and with which evidence."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.messages import NodeRegistration
from domain.recovery.detector import FailureDetector
from domain.recovery.events import NodesLost
from domain.recovery.liveness import (
    DriverSaw,
    ExecutorsListed,
    HeartbeatRead,
    ImpossibleTransitionError,
    Instruction,
    Limits,
    NodeAlive,
    NodeKnown,
    NodesListed,
    NodesSuspected,
    SessionConnected,
    SessionInterrupted,
    SuspicionCleared,
)

LIMITS = Limits(heartbeat_interval=1.0, session_timeout=4.0)


def registration(
    name: str, session: str = "a", pid: int = 1, at: float = 0.0, created: int = 0
) -> NodeRegistration:
    return NodeRegistration(
        id=name,
        address="127.0.1.1",
        rack="r",
        slots=2,
        capacity=100,
        pid=pid,
        session=session,
        registered_at=at,
        created=created,
    )


class Cluster:
    """Feeds a detector second by second: `up` nodes are registered, `beating` ones send heartbeats."""

    def __init__(self, *names: str) -> None:
        self.detector = FailureDetector(LIMITS)
        self.at = 0.0
        self.registered = {name: registration(name) for name in names}
        self.beating = set(names)
        self.detector.handle_stimulus(SessionConnected(0.0))
        self.said: list[Instruction] = []

    def run(self, seconds: float, step: float = 0.5) -> list[Instruction]:
        said: list[Instruction] = []
        end = self.at + seconds
        while self.at < end:
            self.at += step
            said += self.detector.handle_stimulus(
                NodesListed(self.at, tuple(self.registered.values())),
                *(
                    HeartbeatRead(
                        self.at, n, self.registered[n].session if n in self.registered else "a", self.at
                    )
                    for n in sorted(self.beating)
                ),
            )
            self.detector.validate_state()
        self.said += said
        return said

    def calm(self) -> Cluster:
        """After the grace period of the first connection."""
        self.run(LIMITS.grace + 1)
        return self


def lost(said: list[Instruction]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in said:
        if isinstance(one, NodesLost):
            found.update(one.nodes)
    return found


def test_new_nodes_are_welcomed_once() -> None:
    said = Cluster("n1", "n2").run(5)
    assert [one.registration.id for one in said if isinstance(one, NodeAlive)] == ["n1", "n2"]
    assert len(said) == 2


def test_gone_and_silent_is_lost_within_two_intervals() -> None:
    cluster = Cluster("n1", "n2").calm()
    cluster.beating.discard("n1")
    cluster.run(4)  # the session runs out
    del cluster.registered["n1"]
    said = cluster.run(0.5)
    assert set(lost(said)) == {"n1"}
    assert "registration is gone" in lost(said)["n1"]


def test_several_gone_at_once_are_given_up_together() -> None:
    cluster = Cluster("n1", "n2", "n3", "n4").calm()
    for name in ("n1", "n2", "n3"):
        cluster.beating.discard(name)
        del cluster.registered[name]
    given_up = [one for one in cluster.run(4) if isinstance(one, NodesLost)]
    assert [sorted(one.nodes) for one in given_up] == [["n1", "n2", "n3"]]


def test_gone_but_beating_is_only_suspect() -> None:
    cluster = Cluster("n1", "n2").calm()
    gone = cluster.registered.pop("n1")
    said = cluster.run(20)
    assert not lost(said)
    assert isinstance(said[0], NodesSuspected)
    cluster.registered["n1"] = gone
    assert isinstance(cluster.run(0.5)[0], SuspicionCleared)


def test_suspended_session_loses_no_node() -> None:
    cluster = Cluster("n1", "n2").calm()
    cluster.detector.handle_stimulus(SessionInterrupted(cluster.at))
    cluster.registered.clear()
    cluster.beating.clear()
    assert cluster.run(60) == []


def test_after_an_interruption_nodes_have_a_grace_period() -> None:
    cluster = Cluster("n1", "n2").calm()
    cluster.detector.handle_stimulus(SessionInterrupted(cluster.at))
    before = dict(cluster.registered)
    cluster.registered.clear()
    cluster.beating.clear()
    cluster.at += 30
    cluster.detector.handle_stimulus(SessionConnected(cluster.at))
    assert not lost(cluster.run(LIMITS.grace - 1))
    # One comes back with a new session of the same process, the other doesn't.
    cluster.registered["n2"] = registration("n2", session="b", pid=before["n2"].pid, at=50.0)
    cluster.beating.add("n2")
    said = cluster.run(3)
    assert set(lost(said)) == {"n1"}
    assert [one.returned for one in said if isinstance(one, NodeAlive)] == [True]


def test_driver_evidence_is_faster_than_the_session_and_works_within_grace() -> None:
    cluster = Cluster("n1", "n2").calm()
    cluster.beating.discard("n1")
    cluster.detector.handle_stimulus(DriverSaw(cluster.at, "demo", frozenset({"n1"}), frozenset({"n2"})))
    said = cluster.run(LIMITS.absent + 0.5)
    assert "driver of demo" in lost(said)["n1"]

    cluster = Cluster("n1", "n2")
    cluster.run(1)
    del cluster.registered["n1"]
    cluster.beating.discard("n1")
    cluster.detector.handle_stimulus(DriverSaw(cluster.at, "demo", frozenset({"n1"}), frozenset({"n2"})))
    assert "n1" in lost(cluster.run(LIMITS.session_timeout + 1))


def test_absent_partitions_alone_lose_no_node() -> None:
    cluster = Cluster("n1", "n2").calm()
    cluster.detector.handle_stimulus(DriverSaw(cluster.at, "demo", frozenset({"n1"}), frozenset({"n2"})))
    assert cluster.run(30) == []


def test_hung_agent_is_suspect_and_then_lost_unless_a_driver_sees_it_work() -> None:
    cluster = Cluster("n1", "n2").calm()
    cluster.beating.discard("n1")
    said = cluster.run(LIMITS.hung - 1)
    assert isinstance(said[0], NodesSuspected)
    assert not lost(said)
    working = Cluster("n1", "n2").calm()
    working.beating.discard("n1")
    for _ in range(40):
        working.detector.handle_stimulus(DriverSaw(working.at, "demo", frozenset(), frozenset({"n1"})))
        assert not lost(working.run(1))
    assert "no driver has seen it working" in lost(cluster.run(3))["n1"]


def test_registration_left_by_the_dead_session_does_not_bring_a_node_back() -> None:
    cluster = Cluster("n1", "n2").calm()
    cluster.beating.discard("n1")
    cluster.detector.handle_stimulus(DriverSaw(cluster.at, "demo", frozenset({"n1"}), frozenset({"n2"})))
    assert lost(cluster.run(4))
    assert cluster.run(5) == []  # its ephemeral is still there
    del cluster.registered["n1"]
    assert cluster.run(5) == []


def test_given_up_but_alive_returns_with_its_heartbeat() -> None:
    cluster = Cluster("n1", "n2").calm()
    cluster.beating.discard("n1")
    assert lost(cluster.run(LIMITS.hung + 1))
    cluster.beating.add("n1")
    said = cluster.run(1)
    assert [(one.registration.id, one.returned) for one in said if isinstance(one, NodeAlive)] == [
        ("n1", True)
    ]


def test_new_process_under_an_old_name_is_a_loss_and_an_empty_node() -> None:
    cluster = Cluster("n1", "n2").calm()
    cluster.registered["n1"] = registration("n1", session="b", pid=99, at=10.0)
    said = cluster.run(0.5)
    assert "another process (pid 99" in lost(said)["n1"]
    welcome = next(one for one in said if isinstance(one, NodeAlive))
    assert not welcome.returned
    assert said.index(welcome) > 0, "first the loss, then the new node"


def test_older_registration_is_ignored() -> None:
    cluster = Cluster("n1").calm()
    cluster.registered["n1"] = registration("n1", session="new", at=10.0, created=7)
    cluster.run(1)
    cluster.registered["n1"] = registration("n1", session="older", at=5.0, created=6)
    assert cluster.run(5) == []


@pytest.mark.parametrize(
    ("at", "created"), [(5.0, 8), (15.0, 6)], ids=["its clock was put back", "ZooKeeper lost its data"]
)
def test_a_later_registration_counts(at: float, created: int) -> None:
    cluster = Cluster("n1").calm()
    cluster.registered["n1"] = registration("n1", session="new", at=10.0, created=7)
    cluster.run(1)
    cluster.registered["n1"] = registration("n1", session="later", at=at, created=created)
    said = cluster.run(5)
    assert [one.registration.session for one in said if isinstance(one, NodeAlive)] == ["later"]


def test_a_new_detector_knows_from_the_database_and_waits_before_judging() -> None:
    detector = FailureDetector(LIMITS)
    detector.handle_stimulus(NodeKnown(0.0, "n1", "a", 1, False), NodeKnown(0.0, "n2", "a", 2, True))
    detector.handle_stimulus(SessionConnected(1.0))
    said = detector.handle_stimulus(NodesListed(1.0, ()))
    assert [type(one) for one in said] == [NodesSuspected]
    assert not lost(detector.handle_stimulus(NodesListed(8.0, ())))
    assert set(lost(detector.handle_stimulus(NodesListed(12.0, ())))) == {"n1"}


def test_restarted_installation_keeps_its_nodes() -> None:
    """Agents that are started again together with detection have new processes; that is no failure."""
    detector = FailureDetector(LIMITS)
    detector.handle_stimulus(NodeKnown(0.0, "n1", "old", 1, False), SessionConnected(1.0))
    said = detector.handle_stimulus(NodesListed(3.0, (registration("n1", session="new", pid=77, at=2.0),)))
    assert not lost(said)
    assert [one.returned for one in said if isinstance(one, NodeAlive)] == [True]


def test_impossible_transition_tells_the_story() -> None:
    cluster = Cluster("n1").calm()
    node = cluster.detector.nodes["n1"]
    with pytest.raises(ImpossibleTransitionError, match="cannot go from alive to unknown") as caught:
        cluster.detector._transition(node, "unknown", "nonsense")
    assert "registered for the first time" in str(caught.value)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["beat", "list", "drop", "add", "new", "suspend", "connect", "absent", "working", "tick"]
            ),
            st.integers(0, 3),
            st.floats(0.1, 9.0),
        ),
        max_size=80,
    )
)
def test_any_sequence_is_handled_and_no_node_is_lost_while_suspended(
    steps: list[tuple[str, int, float]],
) -> None:
    detector = FailureDetector(LIMITS)
    present: dict[str, NodeRegistration] = {}
    at, deaf = 0.0, True
    for what, which, wait in steps:
        at += wait
        name = f"n{which}"
        match what:
            case "beat":
                said = detector.handle_stimulus(HeartbeatRead(at, name, "a", at))
            case "list":
                said = detector.handle_stimulus(NodesListed(at, tuple(present.values())))
            case "drop":
                present.pop(name, None)
                said = []
            case "add":
                present.setdefault(name, registration(name, at=at))
                said = []
            case "new":
                present[name] = registration(name, session=f"s{at}", pid=int(at * 10), at=at)
                said = []
            case "suspend":
                deaf = True
                said = detector.handle_stimulus(SessionInterrupted(at))
            case "connect":
                deaf = False
                said = detector.handle_stimulus(SessionConnected(at))
            case "absent":
                said = detector.handle_stimulus(DriverSaw(at, "t", frozenset({name}), frozenset()))
            case "working":
                said = detector.handle_stimulus(DriverSaw(at, "t", frozenset(), frozenset({name})))
            case _:
                said = detector.handle_stimulus(ExecutorsListed(at, {}))
        detector.validate_state()
        assert not (deaf and lost(said))


class Counting(Limits):
    asked = 0

    @property
    def absent(self) -> float:
        Counting.asked += 1
        return 3.0 * self.heartbeat_interval


def test_a_round_compares_each_node_with_few_others() -> None:
    """Of 1,000 nodes, each would be compared with all that have fallen silent."""
    names = [f"node-{number}" for number in range(300)]
    cluster = Cluster(*names).calm()
    cluster.detector.limits = Counting(heartbeat_interval=1.0, session_timeout=4.0)
    for name in names[:-1]:
        cluster.beating.discard(name)
        del cluster.registered[name]
    Counting.asked = 0
    assert lost(cluster.run(5.0)).keys() == set(names[:-1])
    assert Counting.asked < 10 * 3 * len(names), "ten rounds"


@given(st.lists(st.sampled_from((0.0, 2.9, 3.0, 3.1, 9.0)), min_size=1, max_size=6))
def test_what_was_heard_of_others(ages: list[float]) -> None:
    cluster = Cluster(*(f"node-{number}" for number in range(len(ages))))
    cluster.run(20.0)
    detector = cluster.detector
    for node, age in zip(detector.nodes.values(), ages, strict=True):
        node.heard_at = detector.now - age
    heard = detector._heard_lately()
    for name in detector.nodes:
        others = (one for one in detector.nodes.values() if one.name != name)
        wanted = any(detector.now - one.heard_at < detector.limits.absent for one in others)
        assert (not heard <= {name}) == wanted
