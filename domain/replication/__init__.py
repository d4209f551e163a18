"""Which partitions are worth an active replica (DESIGN, section 5). Pure: no Django, Spark or ZooKeeper."""

from domain.fidelity import FidelityModel, Flows, Objective, equal_rates
from domain.replication.dynamic_programming import DynamicProgramming
from domain.replication.explanation import ChosenPartition, QueryOutlook, ReplicationPlan
from domain.replication.greedy import Greedy
from domain.replication.optimal import Optimal
from domain.replication.planner import ReplicationPlanner, ReplicationProblem
from domain.replication.published import PublishedStructureAware
from domain.replication.registry import REPLICATION_PLANNERS, replication_planner_named
from domain.replication.structure_aware import StructureAware, structure_of
from domain.replication.trees import TooLargeError, complete_trees

__all__ = [
    "REPLICATION_PLANNERS",
    "ChosenPartition",
    "DynamicProgramming",
    "FidelityModel",
    "Flows",
    "Greedy",
    "Objective",
    "Optimal",
    "PublishedStructureAware",
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
