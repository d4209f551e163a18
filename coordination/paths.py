"""The layout of the ZooKeeper tree. Values are the records of `domain.messages`."""

from __future__ import annotations

ROOT = "/resurge"


class Paths:
    """Znode paths below `/resurge` (DESIGN, section 4)."""

    NODES = f"{ROOT}/nodes"
    STATS = f"{ROOT}/stats"
    TOPOLOGIES = f"{ROOT}/topologies"
    FORMER = f"{ROOT}/former"

    @staticmethod
    def node(node: str) -> str:
        return f"{Paths.NODES}/{node}"

    @staticmethod
    def stats(node: str) -> str:
        return f"{Paths.STATS}/{node}"

    @staticmethod
    def former(name: str) -> str:
        """Outside of the tree of the topology, which is removed when it is deleted."""
        return f"{Paths.FORMER}/{name}"

    @staticmethod
    def topology(name: str) -> str:
        return f"{Paths.TOPOLOGIES}/{name}"

    @staticmethod
    def topology_of(path: str) -> str:
        """The topology that a path belongs to; empty for one of nodes."""
        inside = path.removeprefix(f"{Paths.TOPOLOGIES}/")
        return "" if inside == path else inside.partition("/")[0]

    @staticmethod
    def spec(name: str) -> str:
        return f"{Paths.TOPOLOGIES}/{name}/spec"

    @staticmethod
    def plan(name: str) -> str:
        return f"{Paths.TOPOLOGIES}/{name}/plan"

    @staticmethod
    def replicas(name: str) -> str:
        return f"{Paths.TOPOLOGIES}/{name}/replicas"

    @staticmethod
    def driver(name: str) -> str:
        return f"{Paths.TOPOLOGIES}/{name}/driver"

    @staticmethod
    def executors(name: str) -> str:
        return f"{Paths.TOPOLOGIES}/{name}/executors"

    @staticmethod
    def application(name: str) -> str:
        return f"{Paths.TOPOLOGIES}/{name}/application"

    @staticmethod
    def control(name: str) -> str:
        return f"{Paths.TOPOLOGIES}/{name}/control"

    @staticmethod
    def costs(name: str) -> str:
        return f"{Paths.TOPOLOGIES}/{name}/costs"

    @staticmethod
    def checkpoints(name: str) -> str:
        return f"{Paths.TOPOLOGIES}/{name}/checkpoints"

    @staticmethod
    def latest_checkpoint(name: str) -> str:
        return f"{Paths.TOPOLOGIES}/{name}/checkpoints/latest"

    @staticmethod
    def acks(name: str, checkpoint: int) -> str:
        return f"{Paths.TOPOLOGIES}/{name}/checkpoints/{checkpoint}/acks"

    @staticmethod
    def ack(name: str, checkpoint: int, partition_directory: str, deployed: int) -> str:
        """Each deployment has its own, so that a node of an earlier one takes no other's place."""
        return f"{Paths.acks(name, checkpoint)}/{partition_directory}.{deployed}"
