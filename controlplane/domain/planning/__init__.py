"""Recovery planning and placement (DESIGN, section 5). Pure: no Django, Spark or ZooKeeper."""

from controlplane.domain.planning.arrivals import (
    Arrival,
    ObservedDelay,
    UniformDelay,
    expected_arrivals,
    parse_delay,
)
from controlplane.domain.planning.best_density import AdaptiveDensity, BestDensity, ProfitDensity
from controlplane.domain.planning.cores import cores, cores_number
from controlplane.domain.planning.deployment import (
    chains,
    entitled_costs,
    initial_placement,
    partition_levels,
    replacement_placement,
)
from controlplane.domain.planning.dynamic_programming import DynamicProgramming, TooManyPlansError
from controlplane.domain.planning.formulation import free_capacity, problem_from_sets, recovery_problem
from controlplane.domain.planning.look_ahead import LookAhead
from controlplane.domain.planning.operator_centric import OperatorCentric
from controlplane.domain.planning.optimal import Optimal
from controlplane.domain.planning.placement import (
    MAX_UTILISATION,
    NodeSpace,
    Placement,
    effective_costs,
    natural_key,
    place,
)
from controlplane.domain.planning.planner import Planner
from controlplane.domain.planning.problem import RecoveryProblem
from controlplane.domain.planning.proposal import QueryExplanation, RecoveryPlanProposal, Selection
from controlplane.domain.planning.registry import PLANNERS, planner_named
from controlplane.domain.planning.schedule import Schedule, Wave, forecast

__all__ = [
    "MAX_UTILISATION",
    "PLANNERS",
    "AdaptiveDensity",
    "Arrival",
    "BestDensity",
    "DynamicProgramming",
    "LookAhead",
    "NodeSpace",
    "ObservedDelay",
    "OperatorCentric",
    "Optimal",
    "Placement",
    "Planner",
    "ProfitDensity",
    "QueryExplanation",
    "RecoveryPlanProposal",
    "RecoveryProblem",
    "Schedule",
    "Selection",
    "TooManyPlansError",
    "UniformDelay",
    "Wave",
    "chains",
    "cores",
    "cores_number",
    "effective_costs",
    "entitled_costs",
    "expected_arrivals",
    "forecast",
    "free_capacity",
    "initial_placement",
    "natural_key",
    "parse_delay",
    "partition_levels",
    "place",
    "planner_named",
    "problem_from_sets",
    "recovery_problem",
    "replacement_placement",
]
