"""Randomised failures of a running stack, drawn from a seed. Pure.

A schedule says how many nodes die at which time, and what else happens. The nodes are drawn from those alive
at that time, so a seed repeats the same decisions as long as the stack is in the same state.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

StepKind = Literal["kill", "driver", "worker", "restart", "policy", "freeze"]

METHODS = ("incremental", "blocking", "auto")
ROLLBACKS = ("ancestors", "global")
WORKERS = ("detection", "recovery")
SERVERS = ("zookeeper", "redis")
# Time before a step: at once, during detection and planning, during a replay, about a checkpoint later.
GAPS = ((0.0, 0.5), (1.0, 5.0), (5.0, 10.0), (10.0, 16.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Wait `after` seconds, then: kill `count` nodes at once, kill the driver, kill the Celery worker
    `target`, stop and start the server `target`, set the policy to `method` and `rollback`, or stop the
    processes of the kind `target` for `seconds` without ending them."""

    kind: StepKind
    after: float
    count: int = 0
    target: str = ""
    method: str = ""
    rollback: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        what = {
            "kill": f"kill {self.count}",
            "driver": "kill driver",
            "worker": f"kill {self.target}",
            "restart": f"restart {self.target}",
            "policy": f"policy {self.method}/{self.rollback}",
            "freeze": f"freeze {self.target} for {self.seconds:g}s",
        }[self.kind]
        return f"+{self.after:.1f}s {what}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """`seed` is what it was drawn from: `<seed of the run>/<number>`."""

    seed: str
    steps: tuple[Step, ...]


def schedule_draw(seed: str, *, nodes: int, most: int = 0) -> Schedule:
    """One to four kills of one to `nodes` nodes each, and up to two other failures or changes in between.
    most: nodes in most kills, where not all but one may die in any."""
    rng = random.Random(seed)
    steps: list[Step] = []
    if rng.random() < 0.6:
        # A change of policy comes first, or also in the middle of a recovery.
        steps.append(_policy(rng, after=0.0))
    for kill in range(rng.randint(1, 4)):
        steps.append(Step(kind="kill", after=_gap(rng, first=kill == 0), count=_count(rng, nodes, most)))
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        steps.insert(rng.randint(1, len(steps)), _trouble(rng))
    return Schedule(seed, tuple(steps))


def freeze_draw(seed: str, *, kind: str, seconds: float) -> Schedule:
    """One or two nodes die, and while they are recovered processes of one kind freeze. Where detection itself
    freezes, it does so when the nodes die."""
    rng = random.Random(seed)
    kill = Step(kind="kill", after=_gap(rng, first=True), count=rng.randint(1, 2))
    after = 0.0 if kind == "detection" else round(rng.uniform(0.0, 2.0), 2)
    return Schedule(seed, (kill, Step(kind="freeze", after=after, target=kind, seconds=seconds)))


def victims_draw(seed: str, number: int, alive: Sequence[str], count: int) -> list[str]:
    """Which of the nodes alive die in step `number` of the schedule with this seed."""
    rng = random.Random(f"{seed}/{number}")
    return sorted(rng.sample(sorted(alive), min(count, len(alive))))


def _count(rng: random.Random, nodes: int, most: int) -> int:
    """In most cases some of the nodes, sometimes all."""
    return nodes if rng.random() < 0.08 else rng.randint(1, most or max(1, nodes - 1))


def _gap(rng: random.Random, *, first: bool) -> float:
    low, high = rng.choice(GAPS[1:] if first else GAPS)
    return round(rng.uniform(low, high), 2)


def _trouble(rng: random.Random) -> Step:
    kind = rng.choice(("driver", "worker", "restart", "policy"))
    after = _gap(rng, first=False)
    match kind:
        case "driver":
            return Step(kind="driver", after=after)
        case "worker":
            return Step(kind="worker", after=after, target=rng.choice(WORKERS))
        case "restart":
            return Step(kind="restart", after=after, target=rng.choice(SERVERS))
    return _policy(rng, after=after)


def _policy(rng: random.Random, *, after: float) -> Step:
    return Step(kind="policy", after=after, method=rng.choice(METHODS), rollback=rng.choice(ROLLBACKS))
