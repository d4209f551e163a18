"""When will it be over? Predictions that the product made in real incidents, and what became of them.

The scarce demo on real processes: nodes are killed by SIGKILL, one, two or a rack at a time, drawn at random,
again and again; between two failures everything is well for a random time. What is compared was stored by the
control plane while the incidents went on, and each incident is predicted with what those before have shown.
Reported is how often the range of 80 % contained the truth, by kind and by stage, and how wide it was. The
run fails if an incident was not recovered, predicted nothing, or rows of the outputs differ.

`--incidents 5` is a smaller run; `--seed` draws other failures.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.forecast import KINDS, criteria_of, summary, table_of
from benchmarks.runner import Report, Session, at_least, run
from benchmarks.stack import (
    TOPOLOGY,
    BenchmarkStack,
    StackError,
    input_file,
    pipeline_spec,
    running_stack,
    stopping_in_order,
)
from domain.forecast import Prediction
from domain.forecast.outlook import STAGES
from supervision.profiles import SCARCE

INCIDENTS, QUICK = 30, 4
RATE = 1_000
PAUSE = (5.0, 25.0)
"""Seconds for which everything is well before the next failure."""
PATIENCE = 300.0
READ = (
    "import json; from controlplane.incidents.models import IncidentPrediction as P; "
    "stamp = lambda at: at and at.timestamp(); "
    "print(json.dumps([[p.incident.number, p.kind, p.subject, p.stage, stamp(p.made_at), p.raw, "
    "stamp(p.expected_at), stamp(p.low_at), stamp(p.high_at), stamp(p.over_at)] "
    "for p in P.objects.select_related('incident').order_by('pk')]))"
)


@dataclass(slots=True)
class Failed:
    """One failure: the nodes that were killed, its incident, and the waves that its plans made."""

    nodes: list[str]
    incident: int
    waves: int
    seconds: float


def victims(stack: BenchmarkStack, draw: random.Random) -> list[str]:
    """Nodes with partitions: one, two anywhere, or those of one rack. At least one of them stays."""
    alive = stack.nodes("alive")
    used = sorted(name for name, hosted in stack.homes().items() if hosted)
    racks: defaultdict[str, list[str]] = defaultdict(list)
    for name in used:
        racks[alive[name]["rack"]].append(name)
    whole = [members for members in racks.values() if len(members) < len(used)]
    kind = draw.choices(("one", "two", "rack"), weights=(3, 2, 5))[0]
    if kind == "rack" and whole:
        return draw.choice(sorted(whole))
    return draw.sample(used, min(1 if kind == "one" else 2, len(used) - 1))


def fail_once(stack: BenchmarkStack, draw: random.Random) -> Failed:
    """Kill nodes, and wait until every query is available again. Raises `StackError`."""
    stack.healthy(timeout=PATIENCE)
    time.sleep(draw.uniform(*PAUSE))
    stack.healthy(timeout=PATIENCE)
    before = {row["number"] for row in stack.incidents()}
    chosen = victims(stack, draw)
    at = stack.kill_nodes(*chosen)
    stack.expect(
        lambda: {row["number"] for row in stack.incidents()} - before, "an incident", timeout=PATIENCE
    )
    stack.healthy(timeout=PATIENCE)
    new = [row for row in stack.incidents() if row["number"] not in before and row["failed_nodes"]]
    if not new:
        raise StackError(f"the loss of {', '.join(chosen)} is in no incident")
    number = min(row["number"] for row in new)
    waves = sum(plan["applied_at"] is not None for plan in stack.plans(number))
    return Failed(chosen, number, waves, time.time() - at)


def predictions_of(stack: BenchmarkStack) -> dict[int, list[Prediction]]:
    """Every stored prediction, by incident."""
    rows = json.loads(stack.manage("shell", "--no-imports", "-c", READ).splitlines()[-1])
    found: defaultdict[int, list[Prediction]] = defaultdict(list)
    for number, kind, subject, stage, made, raw, expected, low, high, over in rows:
        found[number].append(
            Prediction(
                kind=kind, subject=subject, stage=stage, made_at=made, raw=raw, expected_at=expected,
                low_at=low, high_at=high, over_at=over,
            )
        )  # fmt: skip
    return found


def measure(session: Session) -> Report:
    count = session.options.incidents or (QUICK if session.quick else INCIDENTS)
    draw = random.Random(session.options.seed)
    spec = pipeline_spec(rate=RATE, epoch_interval=1.0)
    for operator in spec["operators"]:
        if operator.get("output"):
            operator["cpu_request"] = SCARCE.cpu_request
    variables = {**SCARCE.settings, "RESURGE_CHECKPOINT_INTERVAL": "10"}
    failures: list[Failed] = []
    with (
        stopping_in_order(),
        running_stack(
            nodes=SCARCE.nodes, slots=SCARCE.slots, capacity=SCARCE.capacity, variables=variables
        ) as stack,
    ):
        stack.deploy_spec(spec, input=input_file())
        stack.policy_set(rebalancing="automatic")
        with session.progress("incidents", count) as step:
            for _ in range(count):
                failures.append(fail_once(stack, draw))
                last = failures[-1]
                session.note(
                    f"incident {last.incident}: {', '.join(last.nodes)}; {last.waves} waves, all well after "
                    f"{last.seconds:.0f} s"
                )
                step()
        made = predictions_of(stack)
        verdict = stack.verify()
    return report_of(failures, made, verdict.rows if verdict.clean else 0, session.options.seed)


def report_of(
    failures: Sequence[Failed], made: dict[int, list[Prediction]], exact_rows: int, seed: int
) -> Report:
    ours = [one for failed in failures for one in made.get(failed.incident, ())]
    by: defaultdict[tuple[str, str], list[Prediction]] = defaultdict(list)
    for one in ours:
        by[one.kind, one.stage].append(one)
        by[one.kind, "all"].append(one)
    rows = [
        {"kind": kind, "stage": stage, **found}
        for kind in KINDS
        for stage in ("all", *STAGES)
        if by[kind, stage] and (found := summary(by[kind, stage]))["count"]
    ]
    report = Report(
        parameters={"incidents": len(failures), "seed": seed, "rate": RATE, "profile": SCARCE.name},
        results={
            "rows": rows,
            "nodes_killed": sum(len(one.nodes) for one in failures),
            "waves": [one.waves for one in failures],
            "seconds": [round(one.seconds, 1) for one in failures],
            "exact_rows": exact_rows,
        },
    )
    predicted = sum(any(one.over_at is not None for one in made.get(f.incident, ())) for f in failures)
    report.criteria.append(at_least("incidents with predictions that came true", predicted, len(failures)))
    report.criteria.append(at_least(f"rows of {TOPOLOGY}, all exact", exact_rows, 1))
    report.criteria += criteria_of(rows)
    report.tables.append(table_of(rows, "Predictions of real incidents"))
    return report


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--incidents", type=int, default=0, metavar="N", help=f"default {INCIDENTS}")
    parser.add_argument("--seed", type=int, default=1)


if __name__ == "__main__":
    sys.exit(run(name="forecast_real", about=__doc__, measure=measure, arguments=arguments))
