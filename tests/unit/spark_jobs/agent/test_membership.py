"""What an agent takes from ZooKeeper. With a server: `test_driver_and_agent.py` and `test_forgetting.py` in
`tests/integration/control_plane`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from coordination.paths import Paths
from coordination.session import CoordinationUnavailableError, Stored
from domain.messages import (
    CheckpointAck,
    DeployedSpec,
    DriverStatus,
    Former,
    LatestCheckpoint,
    Plan,
    SparkApplication,
)
from spark_jobs.agent.forgetting import Over
from spark_jobs.agent.membership import MISSING_GRACE, NodeIdentity, NodeMembership
from spark_jobs.agent.prefetch import Newest
from spark_jobs.agent.statistics import NodeUsage
from spark_jobs.state.checkpoint_storage import Deployment

APPLICATION = SparkApplication(id="app-1", host="127.0.0.1", port=4040, memory="512m", pid=1)
DRIVER = DriverStatus(
    topology="t", pid=1, session="", generation=4, state="running", head=1, committed=1, checkpoint=0, at=1.0
)


class Znodes:
    """A session in memory; a value of None is one that cannot be read."""

    connected = True
    session = "1"

    def __init__(self) -> None:
        self.values: dict[str, msgspec.Struct | None] = {}

    def children(self, path: str, *, watch: bool = False) -> list[str] | None:
        below = [one.removeprefix(f"{path}/") for one in self.values if one.startswith(f"{path}/")]
        return sorted({one.partition("/")[0] for one in below}) or None

    def get(self, path: str, kind: type) -> Stored[Any] | None:
        value = self.values.get(path)
        return None if value is None else Stored(value, "")

    def get_many(
        self, wanted: Sequence[tuple[str, type]], *, watch: bool = False
    ) -> list[Stored[Any] | None]:
        return [self.get(path, kind) for path, kind in wanted]

    def exists(self, path: str) -> bool:
        return path in self.values

    def put(self, path: str, value: msgspec.Struct, *, new: bool = False) -> None:
        self.values[path] = value


class Agent:
    """Its membership, what it wants to run, and the time."""

    def __init__(self) -> None:
        self.now = 100.0
        self.znodes = Znodes()
        self.wanted: dict[str, SparkApplication | None] = {}
        self.membership = NodeMembership(
            identity=NodeIdentity(
                id="node-1", address="127.0.1.1", rack="", slots=1, capacity=100, standby=False, pid=1
            ),
            hosts="127.0.0.1:1",
            session_timeout=1.0,
            heartbeat_interval=1.0,
            usage=lambda: NodeUsage(0.0, 0, 0),
            executors=list,
            on_wanted=self.want,
        )
        session: Any = self.znodes
        self.membership._session = session

    def want(self, told: Mapping[str, SparkApplication | None]) -> None:
        self.wanted = dict(told)

    def say(self, **values: msgspec.Struct | None) -> None:
        """Of the topology t, by the name of its path."""
        for name, value in values.items():
            path = getattr(Paths, name)("t")
            if value is None:
                self.znodes.values.pop(path, None)
            else:
                self.znodes.values[path] = value

    def listed(self, *, after: float = 0.0) -> dict[str, SparkApplication | None]:
        self.now += after
        self.membership._list_topologies()
        return self.wanted


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Agent:
    made = Agent()
    monkeypatch.setattr("spark_jobs.agent.membership.time.monotonic", lambda: made.now)
    return made


def spec(desired: Any) -> DeployedSpec:
    return DeployedSpec(name="t", version=1, spec={}, desired=desired)


def plan(deployed: int, *nodes: str) -> Plan:
    homes = {f"S[{index}]": node for index, node in enumerate(nodes)}
    return Plan(generation=deployed + 2, kind="recover", assignment=homes, deployed=deployed)


def test_a_deleted_topology_is_over_and_one_whose_plan_cannot_be_read_is_not(agent: Agent) -> None:
    agent.say(former=Former(generation=7))
    assert agent.membership.over(["t"]) == {"t": Over(7, gone=True)}
    agent.znodes.values[Paths.plan("t")] = None
    assert agent.membership.over(["t"]) == {}
    agent.say(plan=plan(4), driver=DRIVER, former=Former(generation=2))
    assert agent.membership.over(["t"]) == {"t": Over(3, of=4)}
    agent.say(former=None)
    assert agent.membership.over(["t", "other"]) == {"t": Over(3, of=4), "other": Over()}


def test_a_checkpoint_of_the_deployment_before_is_not_fetched(agent: Agent) -> None:
    latest = LatestCheckpoint(checkpoint=30, generation=3, completed_at=1.0, size_bytes=1)
    agent.say(latest_checkpoint=latest)
    assert agent.membership.newest_checkpoints() == {}
    agent.say(plan=plan(4, "node-2"), latest_checkpoint=None)
    assert agent.membership.newest_checkpoints() == {}
    agent.say(latest_checkpoint=latest)
    assert agent.membership.newest_checkpoints() == {"t": Newest(Deployment("t", 4), 0, here=False)}
    agent.say(latest_checkpoint=msgspec.structs.replace(latest, checkpoint=40, generation=4))
    assert agent.membership.newest_checkpoints() == {"t": Newest(Deployment("t", 4), 40, here=False)}
    agent.say(plan=plan(4, "node-2", "node-1"))
    assert agent.membership.newest_checkpoints()["t"].here


def test_without_a_connection_nothing_is_over_and_nothing_is_acknowledged(agent: Agent) -> None:
    agent.say(former=Former(generation=7))
    agent.znodes.connected = False
    with pytest.raises(CoordinationUnavailableError):
        agent.membership.over(["t"])
    with pytest.raises(CoordinationUnavailableError):
        agent.membership.newest_checkpoints()
    ack = CheckpointAck(
        partition="S[0]", checkpoint=1, generation=1, node="node-1", size_bytes=1, uploaded_bytes=1, files=1,
        duration=0.1,
    )  # fmt: skip
    assert not agent.membership.acknowledge("t", ack, "S-0")
    agent.znodes.connected = True
    assert agent.membership.acknowledge("t", ack, "S-0")
    assert agent.znodes.values[Paths.ack("t", 1, "S-0", 0)] == ack


def test_a_topology_that_vanishes_keeps_its_executor_for_a_while(agent: Agent) -> None:
    """A ZooKeeper that lost its data gets everything written again."""
    agent.say(spec=spec("running"), application=APPLICATION)
    assert agent.listed() == {"t": APPLICATION}
    agent.znodes.values.clear()
    assert agent.listed() == {"t": None}
    assert agent.listed(after=MISSING_GRACE - 1) == {"t": None}
    agent.say(spec=spec("running"))
    assert agent.listed() == {"t": None}
    agent.say(spec=None, plan=plan(4))
    assert agent.listed(after=2.0) == {"t": None}, "it was there meanwhile"
    assert agent.listed(after=MISSING_GRACE) == {}


def test_one_that_is_undeployed_keeps_its_executor_until_its_driver_has_ended(agent: Agent) -> None:
    agent.say(spec=spec("running"), application=APPLICATION, driver=DRIVER)
    agent.listed()
    agent.say(spec=spec("stopped"))
    assert agent.listed() == {"t": APPLICATION}
    agent.say(driver=None)
    assert agent.listed() == {}
    agent.say(driver=DRIVER)
    assert agent.listed() == {}, "none is started for a driver that ends"
