"""Topologies: specification, validation and the graph of partitions and queries (DESIGN, section 1)."""

from domain.topology.graph import (
    Topology,
    directory_partition,
    is_partition,
    partition_directory,
    partition_id,
    split_partition,
)
from domain.topology.lines import lines_told
from domain.topology.load import Catalogue, load_topology
from domain.topology.spec import (
    FieldProblem,
    InputSpec,
    OperatorSpec,
    Partitioning,
    TopologyError,
    TopologySpec,
    spec_decoder,
)
from domain.topology.text import load_yaml
from domain.topology.written import dump_yaml, specification_text

__all__ = [
    "Catalogue",
    "FieldProblem",
    "InputSpec",
    "OperatorSpec",
    "Partitioning",
    "Topology",
    "TopologyError",
    "TopologySpec",
    "directory_partition",
    "dump_yaml",
    "is_partition",
    "lines_told",
    "load_topology",
    "load_yaml",
    "partition_directory",
    "partition_id",
    "spec_decoder",
    "specification_text",
    "split_partition",
]
