"""Randomised kill schedules on real processes, while a topology with a cycle runs: rows that go round when
nodes, the driver, Celery workers and servers die must be there once.

Schedules deploy two pipelines in turn, from their first tuple: `page-groups` (connected components, whose
labels go round a feedback stream until nothing changes) and `page-ranks` (PageRank in rounds, here of windows
of 10 s). Failures come while the input does. Then the topology must run to its end, and every row of every
query be exact. A failed schedule prints its seed; `--seed` and `--first` repeat it.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.engine import PIPELINE
from benchmarks.kill_schedules import DELAY, MAX_UTILISATION, NODES, carry_out, schedules_table
from benchmarks.runner import Report, Session, at_least, run
from benchmarks.schedules import Schedule, schedule_draw
from benchmarks.stack import (
    ENDED,
    TOPOLOGY,
    BenchmarkStack,
    StackError,
    running_stack,
    stopping_in_order,
)
from domain.topology import load_yaml
from spark_jobs.sources.samples import sample_ensure

PIPELINES = ("page-groups", "page-ranks")
RATE = 500
"""Page views per second."""
AT_LEAST = 30.0
"""Seconds of input, at least, and what schedules need."""
PATIENCE = 400.0
BEGUN = 3
"""Epochs that are committed before the first failure."""
ASKED_FOR = 10


def measure(session: Session) -> Report:
    options = session.options
    count = min(options.count, 2) if session.quick else options.count
    numbers = range(options.first, options.first + count)
    drawn = [
        (PIPELINES[number % 2], schedule_draw(f"{options.seed}/{number}", nodes=NODES)) for number in numbers
    ]
    rows = schedules_run(session, drawn)
    kills = sum(done.split(" ", 1)[1].startswith("kill ") for row in rows for done in row["done"])
    clean = sum(row["verified"] for row in rows)
    return Report(
        parameters={
            "nodes": NODES,
            "rate": RATE,
            "delay": DELAY,
            "seed": options.seed,
            "first": options.first,
        },
        results={"schedules": rows, "kills": kills},
        criteria=[
            at_least("schedules verified clean / schedules", clean / max(1, len(rows)), 1.0),
            at_least("schedules", len(rows), ASKED_FOR),
            at_least("incidents", sum(len(row.get("incidents", ())) for row in rows), 1),
            at_least("rows compared, least", min((row.get("rows", 0) for row in rows), default=0), 1),
        ],
        tables=[schedules_table(rows)],
    )


def schedules_run(session: Session, schedules: list[tuple[str, Schedule]]) -> list[dict[str, Any]]:
    """Run them one after the other on one stack, as long as it recovers; a row for each that was begun."""
    rows: list[dict[str, Any]] = []
    variables = {
        "RESURGE_REPLACEMENT_DELAY": DELAY,
        "RESURGE_CHECKPOINT_INTERVAL": "5",
        # Capacities limit planning only.
        "RESURGE_CPU_CAPS": "0",
        "RESURGE_MAX_UTILISATION": f"{MAX_UTILISATION:g}",
    }
    with (
        stopping_in_order(),
        session.progress("schedules", len(schedules)) as step,
        running_stack(nodes=NODES, variables=variables, keep_logs=session.options.logs) as stack,
    ):
        for pipeline, schedule in schedules:
            row = {"seed": schedule.seed, "pipeline": pipeline, "verified": False, "problem": ""}
            rows.append({**row, "done": [str(one) for one in schedule.steps]})
            try:
                rows[-1].update(schedule_run(stack, pipeline, schedule))
            except StackError as error:
                rows[-1]["problem"] = str(error)
            session.note(f"{rows[-1]}")
            step()
            if not rows[-1]["verified"]:
                break
    return rows


def schedule_run(stack: BenchmarkStack, pipeline: str, schedule: Schedule) -> dict[str, Any]:
    """One schedule from the first tuple to the end. Raises `StackError` when it does not get there."""
    before = len(stack.incidents())
    limit = round(RATE * (AT_LEAST + sum(one.after for one in schedule.steps)))
    stack.deploy_spec(spec_of(pipeline, limit), input=sample_ensure(stack.home, "page_views"))
    stack.expect(lambda: stack.topology()["committed_epoch"] >= BEGUN, "the first epochs", timeout=120)
    started = time.monotonic()
    done = carry_out(stack, schedule)
    stack.expect(lambda: _is_over(stack), "the end of the input and of all incidents", timeout=PATIENCE)
    new = stack.incidents()[before:]
    verdict = stack.verify()
    return {
        "done": done.steps,
        "seconds": round(time.monotonic() - started, 1),
        "incidents": [incident["number"] for incident in new],
        "waves": sum(len(stack.plans(incident["number"])) for incident in new),
        "epochs": stack.topology(TOPOLOGY)["committed_epoch"],
        "tuples": limit,
        "verified": verdict.clean,
        "rows": verdict.rows,
        "faults": verdict.faults,
    }


def spec_of(pipeline: str, limit: int) -> dict[str, Any]:
    """The pipeline with a cycle, under the name that a stack asks for."""
    spec: dict[str, Any] = load_yaml(PIPELINE.with_name(f"{pipeline}.yaml").read_text(encoding="utf-8"))
    changed = {"source": {"rate": RATE, "limit": limit}, "page_rank": {"size_s": 10, "rounds": 5}}
    for operator in spec["operators"]:
        if operator["kind"] in changed:
            operator["params"] = {**operator["params"], **changed[operator["kind"]]}
    return {**spec, "name": TOPOLOGY}


def _is_over(stack: BenchmarkStack) -> bool:
    ended = all(row["state"] in ENDED for row in stack.incidents())
    return ended and stack.topology(TOPOLOGY)["status"] == "completed" and len(stack.nodes("alive")) >= NODES


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--count", type=int, default=ASKED_FOR, help="how many schedules (default 10)")
    parser.add_argument("--seed", type=int, default=1, help="what they are drawn from (default 1)")
    parser.add_argument("--first", type=int, default=1, help="number of the first, to repeat one of a seed")
    parser.add_argument(
        "--logs", type=Path, default=Path("failed-schedules"), help="where logs of a failed one are kept"
    )


if __name__ == "__main__":
    sys.exit(run(name="cyclic_schedules", about=__doc__, measure=measure, arguments=arguments))
