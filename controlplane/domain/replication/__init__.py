"""Which partitions are worth an active replica (DESIGN, section 5). Pure: no Django, Spark or ZooKeeper."""

from controlplane.domain.replication.dynamic_programming import DynamicProgramming
from controlplane.domain.replication.explanation import ChosenPartition, QueryOutlook, ReplicationPlan
from controlplane.domain.replication.fidelity import FidelityModel, equal_rates
from controlplane.domain.replication.greedy import Greedy
from controlplane.domain.replication.planner import ReplicationPlanner, ReplicationProblem
from controlplane.domain.replication.registry import REPLICATION_PLANNERS, replication_planner_named
from controlplane.domain.replication.structure_aware import StructureAware, structure_of
from controlplane.domain.replication.trees import TooLargeError, complete_trees

__all__ = [
    "REPLICATION_PLANNERS",
    "ChosenPartition",
    "DynamicProgramming",
    "FidelityModel",
    "Greedy",
    "QueryOutlook",
    "ReplicationPlan",
    "ReplicationPlanner",
    "ReplicationProblem",
    "StructureAware",
    "TooLargeError",
    "complete_trees",
    "equal_rates",
    "replication_planner_named",
    "structure_of",
]
