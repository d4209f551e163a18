"""How a topology's application finds exactly one executor on each node.

The agent of a node starts one Spark worker per deployed topology. That worker offers one unit of a
custom resource named for the topology, and the topology's application asks one unit per executor: so
every node gets exactly one executor of it, and when a node dies no survivor can host a second one.
"""

from __future__ import annotations


def executor_resource(topology: str) -> str:
    """Spark's name of the custom resource of a topology. Topology names hold no underscores, so that
    two of them never share a resource."""
    return "topology_" + topology.replace("-", "_")


def application_conf(topology: str) -> dict[str, str]:
    """Spark properties that a topology's application needs to be placed by this rule. The number of
    cores of an executor stays unset: an executor then takes all cores (`slots`) its worker offers."""
    return {f"spark.executor.resource.{executor_resource(topology)}.amount": "1"}
