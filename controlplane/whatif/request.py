"""The request of a what-if, its parsing, and all its bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from controlplane.errors import Invalid
from domain.planning import UniformDelay, parse_delay
from domain.simulation.comparison import ALGORITHMS
from domain.simulation.scenario import Rollback
from domain.topology import FieldProblem
from host.environment import Delay

AS_PROVIDER = "as provider"
RUNNING: Final = "running"
NONE: Final = "none"
DEFAULT_ALGORITHMS = ("best_density", "operator_centric", "blocking")

MOST_POINTS = 300
MOST_ALGORITHMS = 8
MOST_ARRIVALS = 1_000
MOST_PARTITIONS = 20_000
LONGEST_WAIT = 86_400.0
SECONDS = 20.0
AT_ONCE = 2
"""Real time that one request may take, and how many a server process answers at once. A simulation occupies a
processor, and every viewer may ask for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """The question. Names are those of the live system; priorities are by topology and query. rollback:
    None is what each topology's policy says. replicas: those that run and have caught up, none, or those of
    a replication plan with this budget for each topology."""

    nodes: tuple[str, ...] = ()
    racks: tuple[str, ...] = ()
    arrivals: str | tuple[float, ...] = AS_PROVIDER
    seed: int = 0
    algorithms: tuple[str, ...] = DEFAULT_ALGORITHMS
    priorities: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    rollback: Rollback | None = None
    replay_speed: float = 4.0
    points: int = MOST_POINTS
    replicas: Literal["running", "none"] | int = RUNNING

    def __post_init__(self) -> None:
        """Raises `Invalid` with all errors that can be found without the database."""
        problems = []
        if not self.nodes and not self.racks:
            problems.append(FieldProblem("nodes", "name the nodes or racks that fail"))
        if not self.algorithms:
            problems.append(FieldProblem("algorithms", f"name at least one of {', '.join(ALGORITHMS)}"))
        if len(self.algorithms) > MOST_ALGORITHMS:
            problems.append(FieldProblem("algorithms", f"at most {MOST_ALGORITHMS} are compared at once"))
        for index, name in enumerate(self.algorithms):
            if name not in ALGORITHMS:
                known = ", ".join(ALGORITHMS)
                problems.append(
                    FieldProblem(f"algorithms[{index}]", f"there is no planner {name!r}; known: {known}")
                )
            elif name in self.algorithms[:index]:
                problems.append(FieldProblem(f"algorithms[{index}]", f"{name!r} is named twice"))
        if not isinstance(self.arrivals, str):
            if len(self.arrivals) > MOST_ARRIVALS:
                problems.append(FieldProblem("arrivals", f"at most {MOST_ARRIVALS} nodes can come"))
            for index, seconds in enumerate(self.arrivals):
                if not (math.isfinite(seconds) and 0 <= seconds <= LONGEST_WAIT):
                    problems.append(FieldProblem(f"arrivals[{index}]", f"{_BETWEEN}, not {seconds:g}"))
        if isinstance(self.replicas, str):
            if self.replicas not in (RUNNING, NONE):
                known = f"`{RUNNING}`, `{NONE}` or the budget of a replication plan"
                problems.append(FieldProblem("replicas", f"{self.replicas!r} is neither {known}"))
        elif not 0 <= self.replicas <= MOST_PARTITIONS:
            bounds = f"a budget is between 0 and {MOST_PARTITIONS} partitions"
            problems.append(FieldProblem("replicas", f"{bounds}, not {self.replicas}"))
        if problems:
            raise Invalid.from_problems(problems)

    def arrivals_read(self, provider: Delay) -> UniformDelay | tuple[float, ...]:
        """The arrivals in the simulator's terms. `provider`: how long the configured one takes."""
        if not isinstance(self.arrivals, str):
            return self.arrivals
        if self.arrivals == AS_PROVIDER:
            return UniformDelay(provider.low, provider.high)
        try:
            delay = parse_delay(self.arrivals)
        except ValueError as error:
            accepted = f"`uniform:<low>:<high>`, a number of seconds, a list of them or `{AS_PROVIDER}`"
            raise Invalid("arrivals", f"{error}; write {accepted}") from None
        if not delay.longest <= LONGEST_WAIT:
            raise Invalid("arrivals", f"{_BETWEEN}, not {delay.longest:g}")
        return delay


_BETWEEN = f"nodes come between 0 and {LONGEST_WAIT:g} seconds after the failure"
