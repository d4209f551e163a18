"""Recovery planning and placement (DESIGN, section 5). Pure: no Django, Spark or ZooKeeper."""

from domain.planning.arrivals import (
    Arrival,
    DelayDistribution,
    ObservedDelay,
    UniformDelay,
    expected_arrivals,
    parse_delay,
)
from domain.planning.balance import balancing_moves
from domain.planning.best_density import AdaptiveDensity, BestDensity, ProfitDensity
from domain.planning.cores import cores, cores_number
from domain.planning.deployment import (
    chains,
    entitled_costs,
    initial_placement,
    partition_levels,
    replacement_placement,
)
from domain.planning.dynamic_programming import DynamicProgramming, TooManyPlansError
from domain.planning.formulation import free_capacity, problem_from_sets, recovery_problem
from domain.planning.leveling import epoch_cost, level_out
from domain.planning.look_ahead import LookAhead
from domain.planning.operator_centric import OperatorCentric
from domain.planning.optimal import Optimal
from domain.planning.parking import load_after_moves, queries_to_park, queries_to_return
from domain.planning.placement import (
    MAX_UTILISATION,
    NodeSpace,
    Placement,
    effective_costs,
    natural_key,
    place,
)
from domain.planning.planner import Planner
from domain.planning.problem import RecoveryProblem
from domain.planning.proposal import QueryExplanation, RecoveryPlanProposal, Selection
from domain.planning.registry import PLANNERS, planner_named
from domain.planning.schedule import Schedule, ScheduledWave, forecast
from domain.planning.whole_chains import leaves_parts, rejoined, torn_chains, with_whole_chains

__all__ = [
    "MAX_UTILISATION",
    "PLANNERS",
    "AdaptiveDensity",
    "Arrival",
    "BestDensity",
    "DelayDistribution",
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
    "ScheduledWave",
    "Selection",
    "TooManyPlansError",
    "UniformDelay",
    "balancing_moves",
    "chains",
    "cores",
    "cores_number",
    "effective_costs",
    "entitled_costs",
    "epoch_cost",
    "expected_arrivals",
    "forecast",
    "free_capacity",
    "initial_placement",
    "leaves_parts",
    "level_out",
    "load_after_moves",
    "natural_key",
    "parse_delay",
    "partition_levels",
    "place",
    "planner_named",
    "problem_from_sets",
    "queries_to_park",
    "queries_to_return",
    "recovery_problem",
    "rejoined",
    "replacement_placement",
    "torn_chains",
    "with_whole_chains",
]
