from __future__ import annotations

import pytest
from kazoo.protocol.states import ZnodeStat

from coordination.paths import Paths
from domain.messages import NodeRegistration, encode
from workers.zookeeper import WorkerSession

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
