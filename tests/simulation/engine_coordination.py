"""ZooKeeper, played: what a driver reads of its topology, and what it says of itself."""

from __future__ import annotations

from types import SimpleNamespace

from domain.messages import CheckpointAck, Control, DeployedSpec, DriverStatus, LatestCheckpoint, Plan
from tests.simulation.engine_world import World


class PlayedCoordination:
    """ZooKeeper as the loop sees it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.control = Control()
        self.changed = SimpleNamespace(wait=lambda seconds: None, set=lambda: None)
        self.session = "1"
        self.superseded = 0

    @property
    def spec(self) -> DeployedSpec:
        return DeployedSpec(
            name=self.world.topology.name,
            version=max(1, self.world.computation),
            computation=self.world.computation,
            spec={},
            desired="stopped" if self.world.desired == "stopped" else "running",
            savepoint=self.world.savepoint,
        )

    @property
    def plan(self) -> Plan | None:
        return self.world.plan

    @property
    def addresses(self) -> dict[str, str]:
        return self.world.nodes | self.world.frozen

    def replicas_of(self, deployed: int) -> dict[str, str]:
        return dict(self.world.replicas)

    def tentative_of(self, deployed: int) -> dict[str, float]:
        return dict(self.world.tentative)

    def gone_addresses(self) -> frozenset[str]:
        return frozenset(self.world.frozen.values())

    @property
    def latest(self) -> LatestCheckpoint | None:
        return self.world.latest

    def refresh(self) -> bool:
        self.world.turning()
        return True

    def publish(self, status: DriverStatus) -> None:
        self.world.applied = status.generation
        self.world.reported.append(status)

    def reset_checkpoint(self) -> None:
        self.world.latest = None
        self.world.acks.clear()

    def read_costs(self) -> dict[str, float]:
        return {}

    def write_costs(self, costs: dict[str, float]) -> None: ...

    def acknowledgements(
        self, checkpoint: int, deployed: int, *, job: tuple[int, int] | None = None
    ) -> list[CheckpointAck]:
        if self.world.random.random() < 0.7:
            self.world.upload()
        found = self.world.acks.get(checkpoint, {})
        return [found[directory] for directory in sorted(found)]

    def complete(self, latest: LatestCheckpoint) -> bool:
        if self.world.random.random() < 0.2:
            return False
        self.world.latest = latest
        return True
