"""Topologies: specification, validation and the graph of partitions and queries (DESIGN, section 1)."""

from domain.topology.graph import Topology, partition_directory, partition_id, split_partition
from domain.topology.load import Catalogue, TopologyError, load_topology, load_yaml
from domain.topology.spec import (
    InputSpec,
    OperatorSpec,
    Partitioning,
    Problem,
    TopologySpec,
    spec_decoder,
)

__all__ = [
    "Catalogue",
    "InputSpec",
    "OperatorSpec",
    "Partitioning",
    "Problem",
    "Topology",
    "TopologyError",
    "TopologySpec",
    "load_topology",
    "load_yaml",
    "partition_directory",
    "partition_id",
    "spec_decoder",
    "split_partition",
]
