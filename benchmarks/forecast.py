"""When will it be over? 300 simulated incidents, predicted while they happen, and what became of the
predictions.

Each incident has a topology, nodes, a failure, a provider and a pace of its own, drawn at random; the
coordinator and its planners are the real ones (`domain.simulation`). Nothing of the draw is known to the
predictions, which are made by the code of the product from what it would see, and from the incidents before.
Reported is how often the range of 80 % contained the truth, by kind and by stage, and how wide it was.

`--incidents 50` is a smaller run; `--seed` draws others.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rich.table import Table

from benchmarks.runner import Criterion, Report, Session, run
from domain.forecast import Pace, PlanView, Prediction, Spread, follow, overs
from domain.forecast.outlook import STAGES, Kind, Stage
from domain.forecast.reading import (
    Asked,
    Restoring,
    arrivals_of,
    delay_learned,
    outlook_read,
    queries_of,
)
from domain.planning import NodeSpace, UniformDelay, initial_placement
from domain.recovery.incident import Phase
from domain.simulation.generator import TopologyRecipe, generate_topology
from domain.simulation.scenario import Delays, Failure, Scenario, SimulatedNode, SimulatedTopology
from domain.simulation.world import World

INCIDENTS, QUICK = 300, 60
LOW, HIGH = 0.70, 0.90
KINDS: tuple[Kind, ...] = ("incident", "wave", "query")


@dataclass(slots=True)
class Memory:
    """What earlier incidents have shown."""

    spread: Spread = field(default_factory=Spread)
    delays: list[float] = field(default_factory=list)


def scenario_drawn(draw: random.Random, seed: int) -> Scenario:
    """An incident on a small installation; two of three are recovered in waves."""
    recipe = TopologyRecipe(
        queries=draw.randint(4, 16), size=draw.randint(2, 5), max_sharing=4, costs=(1.0, 8.0)
    )
    made = generate_topology(recipe, seed)
    count = draw.randint(4, 8)
    used = draw.uniform(0.4, 0.7)
    capacity = max(sum(made.costs.values()) / count / used, 1.6 * max(made.costs.values()))
    names = [f"node-{number}" for number in range(1, count + 1)]
    placed = initial_placement(
        made.topology,
        [NodeSpace(name=name, capacity=capacity, load=0.0, standby=False) for name in names],
        costs=made.costs,
        max_utilisation=1.0,
    )
    shortest = draw.uniform(10.0, 20.0)
    interval = draw.uniform(5.0, 15.0)
    return Scenario(
        topologies=(
            SimulatedTopology(
                topology=made.topology,
                assignment=placed.assignment,
                costs=made.costs,
                latency=draw.uniform(0.5, 2.0),
            ),
        ),
        nodes=tuple(SimulatedNode(name=name, capacity=capacity) for name in names),
        failures=(Failure(nodes=tuple(draw.sample(names, draw.randint(1, count - 2)))),),
        arrivals=UniformDelay(shortest, shortest + draw.uniform(20.0, 50.0)),
        method="blocking" if draw.random() < 0.33 else "incremental",
        seed=seed,
        replay_speed=draw.uniform(2.0, 8.0),
        checkpoint_age=draw.uniform(0.0, interval),
        checkpoint_interval=interval,
        delays=Delays(
            detection=draw.uniform(1.0, 6.0),
            adoption=draw.uniform(1.0, 6.0),
            restoration=draw.uniform(0.5, 4.0),
        ),
    )


class Observer:
    """Looks at a world after every event, as the control plane does, and keeps predictions."""

    def __init__(self, scenario: Scenario, memory: Memory) -> None:
        self.world = World(scenario)
        self.predictions: list[Prediction] = []
        self._scenario, self._memory = scenario, memory
        self._decided: dict[tuple[str, int], PlanView] = {}
        self._restore: dict[tuple[str, int], frozenset[str]] = {}
        self._requested: dict[str, float] = {}
        self._stages: dict[tuple[Kind, str], Stage] = {}
        self._checkpoints = {
            one.topology.name: (1, scenario.first_failure - scenario.checkpoint_age)
            for one in scenario.topologies
        }
        self._closed_at = 0.0

    def run(self) -> list[Prediction]:
        """Predictions with what became of them; none where the recovery did not end."""
        outcome = self.world.run(each_step=self._look)
        if not outcome.ended:
            return []
        ends: dict[tuple[Kind, str], float] = {("incident", ""): self._closed_at}
        for query in outcome.queries:
            if query.failed and query.available_at is not None:
                ends["query", query.name] = query.available_at
        for plan in self._decided.values():
            if plan.caught_up_at is not None:
                ends["wave", plan.subject] = plan.caught_up_at
        # An incident is over when what it took down is back.
        back = [at for (kind, _), at in ends.items() if kind == "query"]
        ends["incident", ""] = max(self._closed_at, *back) if back else self._closed_at
        found = [replace(one, over_at=ends.get((one.kind, one.subject))) for one in self.predictions]
        self._memory.spread.learn(overs(found))
        self._memory.delays += [
            coming.at - self._requested[coming.key]
            for coming in outcome.arrivals
            if coming.key in self._requested
        ]
        return found

    def _look(self) -> None:
        world, at = self.world, self.world.agenda.now
        machine = world.coordinator.machine
        if machine is None:
            return
        self._closed_at = self._closed_at if machine.state == "closed" else at
        if not world.coordinator.open:
            return
        self._note(at)
        awaited = self._awaited(at)
        queries = [
            view
            for name, deployment in world.coordinator.deployments.items()
            if (case := machine.cases.get(name)) is not None
            for view in queries_of(
                deployment,
                awaited=awaited[name],
                failed=case.failed,
                plans=self._plans(name),
                checkpoint_at=self._checkpoints[name][1],
            )
        ]
        asked = [
            Asked(requested_at=self._requested[key], capacity=request.capacity * machine.max_utilisation)
            for key, request in machine.requests.items()
            if request.state in ("pending", "started")
        ]
        delay = delay_learned(self._memory.delays, UniformDelay(10.0, 60.0))
        outlook = outlook_read(
            at=at,
            plans={name: self._plans(name) for name in machine.cases},
            queries=queries,
            arrivals=arrivals_of(asked, delay, at),
            pace=Pace(),
            together=self._scenario.method == "blocking",
            held="",
        )
        for prediction in follow(outlook, self._memory.spread, self._stages):
            self.predictions.append(prediction)
            self._stages[prediction.kind, prediction.subject] = prediction.stage

    def _note(self, at: float) -> None:
        """Plans, requests and checkpoints, as rows would have them."""
        machine = self.world.coordinator.machine
        assert machine is not None  # noqa: S101 - asked by the caller
        for key in machine.requests:
            self._requested.setdefault(key, at)
        for name, case in machine.cases.items():
            if case.wave and case.generation > 1:
                plan = self._decided.setdefault(
                    (name, case.generation),
                    PlanView(
                        topology=name,
                        generation=case.generation,
                        decided_at=at,
                        checkpoint_at=self._checkpoints[name][1],
                    ),
                )
                self._restore.setdefault((name, case.generation), case.restore)
                if plan.applied_at is None and case.phase not in (
                    Phase.PLANNED,
                    Phase.PUBLISHED,
                    Phase.FAILED,
                ):
                    plan = replace(plan, applied_at=at)
                if plan.caught_up_at is None and machine.memory.caught_up.get(name) == case.generation:
                    plan = replace(plan, caught_up_at=at)
                self._decided[name, case.generation] = plan
            driver = self.world.drivers[name]
            if driver.checkpoint != self._checkpoints[name][0]:
                self._checkpoints[name] = (driver.checkpoint, at)

    def _plans(self, name: str) -> list[Restoring]:
        return [
            Restoring(plan=plan, restore=self._restore[key])
            for key, plan in self._decided.items()
            if key[0] == name
        ]

    def _awaited(self, at: float) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {name: set() for name in self.world.drivers}
        available = self.world.watch.available_at()
        for index, label in enumerate(self.world.fluid.queries):
            down = self.world.watch.down[index] and available[index] > at
            if self.world.failed[index] and down:
                topology, _, query = label.partition("/")
                found[topology].add(query)
        return found


def incidents_run(count: int, seed: int, step: Any = lambda: None) -> tuple[list[Prediction], int]:
    """Predictions of so many incidents, one after the other, and how many of these did not end."""
    draw, memory = random.Random(seed), Memory()
    found: list[Prediction] = []
    unended = 0
    for number in range(count):
        kept = Observer(scenario_drawn(draw, seed * 100_000 + number), memory).run()
        unended += not kept
        found += kept
        step()
    return found, unended


def summary(predictions: Iterable[Prediction]) -> dict[str, Any]:
    """Of predictions that came true: how many, the share whose range held, how wide, how far off."""
    done = [one for one in predictions if one.over_at is not None]
    if not done:
        return {"count": 0}
    widths = [(one.high_at - one.low_at) / (one.expected_at - one.made_at) for one in done]
    errors = [
        abs((one.over_at or 0.0) - one.expected_at) / max(1.0, (one.over_at or 0.0) - one.made_at)
        for one in done
    ]
    return {
        "count": len(done),
        "held": round(sum(bool(one.held) for one in done) / len(done), 4),
        "below": round(sum((one.over_at or 0.0) < one.low_at for one in done) / len(done), 4),
        "above": round(sum((one.over_at or 0.0) > one.high_at for one in done) / len(done), 4),
        "width": round(statistics.median(widths), 3),
        "error": round(statistics.median(errors), 3),
    }


def measure(session: Session) -> Report:
    count = session.options.incidents or (QUICK if session.quick else INCIDENTS)
    with session.progress("incidents", count) as step:
        predictions, unended = incidents_run(count, session.options.seed, step)
    by: defaultdict[tuple[str, str], list[Prediction]] = defaultdict(list)
    for one in predictions:
        by[one.kind, one.stage].append(one)
        by[one.kind, "all"].append(one)
    rows = [
        {"kind": kind, "stage": stage, **summary(by[kind, stage])}
        for kind in KINDS
        for stage in ("all", *STAGES)
        if by[kind, stage]
    ]
    report = Report(
        parameters={"incidents": count, "seed": session.options.seed},
        results={"rows": rows, "not_ended": unended},
    )
    report.criteria += criteria_of(rows)
    report.tables.append(table_of(rows, "Predictions of simulated incidents"))
    return report


def criteria_of(rows: Sequence[dict[str, Any]]) -> list[Criterion]:
    """Of each kind; one of which nothing came true does not pass."""
    held = {row["kind"]: row["held"] for row in rows if row["stage"] == "all"}
    return [
        Criterion(
            f"{kind}: share of truths within the range of 80 %",
            held.get(kind, 0.0),
            f"{LOW:g} to {HIGH:g}",
            LOW <= held.get(kind, 0.0) <= HIGH,
        )
        for kind in KINDS
    ]


def table_of(rows: Sequence[dict[str, Any]], title: str) -> Table:
    table = Table(title=title, title_justify="left")
    for name in ("predicted", "stage"):
        table.add_column(name)
    for name in ("predictions", "within", "sooner", "later", "width / estimate", "median error"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row["kind"], row["stage"], str(row["count"]),
            *(f"{row[name]:.0%}" for name in ("held", "below", "above", "width", "error")),
        )  # fmt: skip
    return table


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--incidents", type=int, default=0, metavar="N", help=f"default {INCIDENTS}")
    parser.add_argument("--seed", type=int, default=1)


if __name__ == "__main__":
    sys.exit(run(name="forecast", about=__doc__, measure=measure, arguments=arguments))
