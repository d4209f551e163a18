from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from kazoo.protocol.states import ZnodeStat

from controlplane.config.settings import RESURGE
from coordination.paths import Paths
from coordination.session import CoordinationUnavailableError
from domain.messages import NodeRegistration, encode
from workers import zookeeper
from workers.zookeeper import TopologyFacts, WorkerSession, coordination, coordination_close


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A ZooKeeper that does not listen."""
    monkeypatch.setattr(zookeeper, "CALL_DEADLINE", 0.3)
    monkeypatch.setattr("host.environment.read", lambda: replace(RESURGE, zookeeper="127.0.0.1:1"))
    yield
    coordination_close()


def test_a_zookeeper_that_is_away_is_waited_for_once(away: None) -> None:
    """Else a sweep of six topologies kept its thread for 70 s, and alerts and figures had none."""
    waited = []
    for _ in range(3):
        began = time.monotonic()
        with pytest.raises(CoordinationUnavailableError, match="cannot be reached"):
            coordination()
        waited.append(time.monotonic() - began)
    assert waited[0] > 0.2
    assert max(waited[1:]) < 0.1


PATH = Paths.node("node-1")


def test_a_registration_names_the_session_and_the_transaction_that_created_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = NodeRegistration(
        id="node-1",
        address="127.0.1.1",
        rack="r",
        slots=2,
        capacity=100,
        pid=7,
        session="said",
        registered_at=9.0,
    )
    stat = ZnodeStat(
        czxid=2**40, mzxid=2**40 + 3, ctime=0, mtime=0, version=1, cversion=0, aversion=0,
        ephemeralOwner=0xFEE1, dataLength=0, numChildren=0, pzxid=0,
    )  # fmt: skip
    session = WorkerSession("127.0.0.1:1", 4.0)  # never started
    monkeypatch.setattr(session, "children", lambda *_, **__: ["node-1"])
    monkeypatch.setattr(session, "_begin", lambda: 0.0)
    monkeypatch.setattr(session, "_read", lambda *_, **__: {PATH: (encode(written), stat)})
    (read,) = session.registrations()
    assert (read.session, read.created) == ("fee1", 2**40)


def test_what_is_asked_twice_a_second_is_the_plan_and_the_driver_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of hundreds of topologies, specifications of a thousand operators among them."""
    session = WorkerSession("127.0.0.1:1", 4.0)  # never started
    asked: list[str] = []

    def read(paths: Iterable[str], *_: Any, **__: Any) -> dict[str, Any]:
        asked.extend(paths)
        return dict.fromkeys(asked)

    monkeypatch.setattr(session, "_begin", lambda: 0.0)
    monkeypatch.setattr(session, "_read", read)
    nothing = TopologyFacts(name="a", spec=None, plan=None, driver=None, latest=None)
    assert session.topology_facts({"a"}, brief=True) == {"a": nothing}
    assert asked == [Paths.plan("a"), Paths.driver("a")]
    asked.clear()
    assert session.topology_facts({"a"}) == {"a": nothing}
    assert set(asked) == {Paths.plan("a"), Paths.driver("a"), Paths.spec("a"), Paths.latest_checkpoint("a")}
