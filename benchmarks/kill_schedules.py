"""Randomised kill schedules on real processes: nodes, the driver, Celery workers and servers die or restart
at random moments, also during recoveries and checkpoints, while the recovery policy changes. After each
schedule all queries must be available and every row of every query exact (`manage.py verify`).

With `--replicas` so many replicas run, and queries that lack a part of their input give tentative output, all
of which must be compared with the final rows in the end.

INPUT=<file> reads real tweets. A failed schedule prints its seed; `--seed` and `--first` repeat it.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.table import Table

from benchmarks.copies import copies_begin, copies_report, copies_seen, copies_since
from benchmarks.runner import Report, Session, at_least, run
from benchmarks.schedules import Schedule, Step, schedule_draw, victims_draw
from benchmarks.stack import (
    ENDED,
    BenchmarkStack,
    StackError,
    input_file,
    pipeline_spec,
    running_stack,
    stopping_in_order,
)
from harness.freezing import freeze
from harness.roles import ON_NODES

NODES = 5
# A low rate, so that the verification after each schedule does not take long.
RATE = 300
DELAY = "uniform:1:6"
RECOVERY_TIMEOUT = 300.0
MAX_UTILISATION = 0.8
ROOM, ROOM_WITH_REPLICAS = 0.35, 0.6
"""Of what all partitions take together: so much of it one node has room for."""
MOST_WITH_REPLICAS = 2
"""Nodes that die at once, in most kills: else no replica is left to take over."""
ASKED_FOR = 30


@dataclass(slots=True)
class Done:
    """What the steps came to: a description of each, and a row for each that froze processes."""

    steps: list[str] = field(default_factory=list)
    freezes: list[dict[str, Any]] = field(default_factory=list)


def carry_out(stack: BenchmarkStack, schedule: Schedule) -> Done:
    done = Done()
    for number, step in enumerate(schedule.steps):
        time.sleep(step.after)
        done.steps.append(f"{step}{_act(stack, schedule, number, step, done)}")
    return done


def _act(stack: BenchmarkStack, schedule: Schedule, number: int, step: Step, done: Done) -> str:
    """Carry out one step; returns what was decided only now, such as which nodes, for the report."""
    match step.kind:
        case "kill":
            victims = victims_draw(schedule.seed, number, _alive(stack), step.count)
            if victims:
                stack.kill_nodes(*victims)
            return f" ({', '.join(victims) or 'none was alive'})"
        case "driver":
            stack.kill_driver()
        case "worker":
            stack.kill(step.target)
        case "restart":
            stack.restart(step.target, pause=1.0)
        case "policy":
            stack.patiently(
                lambda: stack.policy_set(method=step.method, rollback=step.rollback, approval="automatic")
            )
        case "freeze":
            done.freezes.append(_freeze(stack, schedule, number, step))
            row = done.freezes[-1]
            return f" ({row['node'] or 'control plane'}: {row['stopped']} stopped, {row['ended']} ended)"
    return ""


def _alive(stack: BenchmarkStack) -> list[str]:
    return [name for name in stack.nodes("alive") if stack.node_runs(name)]


def _freeze(stack: BenchmarkStack, schedule: Schedule, number: int, step: Step) -> dict[str, Any]:
    """Stop processes for some seconds. `recovering`: whether an incident was open when they stopped;
    `stopped`: how many were in state T at first, `ended`: how many of them had been killed in the end."""
    if step.target != "detection":
        stack.expect(lambda: _is_recovering(stack), "an open incident", timeout=60)
    node = ""
    if step.target in ON_NODES:
        with_one = [name for name in _alive(stack) if stack.processes_of(step.target, name)]
        node = "".join(victims_draw(schedule.seed, number, with_one, 1))
        if not node:
            raise StackError(f"no node has a process of the kind {step.target}")
    recovering = _is_recovering(stack)
    frozen = freeze(stack.processes_of(step.target, node))
    try:
        stopped = frozen.stopped
        time.sleep(step.seconds)
        still, ended = frozen.stopped, frozen.ended
    finally:
        frozen.go_on()
    if stopped == 0 or still + ended < stopped:
        raise StackError(f"{step}: {stopped} processes stopped, of which {still} still were, {ended} ended")
    return {
        "kind": step.target,
        "seconds": step.seconds,
        "node": node,
        "stopped": stopped,
        "ended": ended,
        "recovering": recovering,
    }


def _is_recovering(stack: BenchmarkStack) -> bool:
    return any(row["state"] not in ENDED for row in stack.incidents())


def schedule_run(stack: BenchmarkStack, schedule: Schedule, *, replicas: bool = False) -> dict[str, Any]:
    """One schedule on a healthy stack. Raises `StackError` when it does not recover."""
    before = len(stack.incidents())
    copies = copies_seen(stack) if replicas else None
    started = time.monotonic()
    done = carry_out(stack, schedule)
    # Wait until the last kill has been noticed; before, the stack would still look healthy.
    time.sleep(2 * stack.installation.settings.session_timeout)
    stack.healthy(timeout=RECOVERY_TIMEOUT)
    recovered = time.monotonic() - started
    new = stack.incidents()[before:]
    plans = [plan for incident in new for plan in stack.plans(incident["number"])]
    verdict = stack.verify()
    found = {} if copies is None else copies_since(stack, copies)
    return {
        **found,
        "done": done.steps,
        "freezes": done.freezes,
        "seconds": round(recovered, 1),
        "incidents": [incident["number"] for incident in new],
        "states": sorted({incident["state"] for incident in new}),
        "waves": len(plans),
        "methods": dict(Counter(plan["method"] for plan in plans)),
        "verified": verdict.clean,
        "rows": verdict.rows,
        "faults": verdict.faults,
    }


def measure(session: Session) -> Report:
    options = session.options
    count = min(options.count, 3) if session.quick else options.count
    numbers = range(options.first, options.first + count)
    most = MOST_WITH_REPLICAS if options.replicas else 0
    drawn = [schedule_draw(f"{options.seed}/{number}", nodes=NODES, most=most) for number in numbers]
    rows = schedules_run(session, drawn, replicas=options.replicas)
    report = _report(rows, seed=options.seed, first=options.first)
    if options.replicas:
        report.parameters["replicas"] = options.replicas
        copies_report(report)
    return report


def schedules_run(
    session: Session, schedules: Sequence[Schedule], *, replicas: int = 0
) -> list[dict[str, Any]]:
    """Run them one after the other, with a progress bar; a row for each."""
    waiting = deque(schedules)
    rows: list[dict[str, Any]] = []
    try:
        with stopping_in_order(), session.progress("schedules", len(schedules)) as step:
            while waiting:
                _on_one_stack(session, waiting, rows, step, replicas)
    except KeyboardInterrupt:
        # An interrupted schedule has no result; those that have ended count.
        rows = [row for row in rows if row["verified"] or row["problem"]]
        session.note(f"interrupted after {len(rows)} schedules")
    return rows


def _on_one_stack(
    session: Session,
    waiting: deque[Schedule],
    rows: list[dict[str, Any]],
    step: Callable[[], None],
    replicas: int,
) -> None:
    """Run schedules on one stack until none is left or one fails. The schedules after a failed one need a new
    stack."""
    done_before = len(rows)
    logs = session.options.logs / waiting[0].seed.replace("/", "-")
    variables = {
        "RESURGE_REPLACEMENT_DELAY": DELAY,
        "RESURGE_CHECKPOINT_INTERVAL": "5",
        # Capacities limit planning only, see `_tighten`.
        "RESURGE_CPU_CAPS": "0",
        "RESURGE_MAX_UTILISATION": f"{MAX_UTILISATION:g}",
    }
    try:
        with running_stack(nodes=NODES, variables=variables, keep_logs=logs) as stack:
            stack.deploy_spec(pipeline_spec(rate=RATE, epoch_interval=1.0), input=input_file())
            stack.healthy()
            _tighten(stack, ROOM_WITH_REPLICAS if replicas else ROOM)
            if replicas:
                copies_begin(stack, replicas)
            while waiting:
                schedule = waiting.popleft()
                row: dict[str, Any] = {"seed": schedule.seed, "verified": False, "problem": "", "freezes": []}
                rows.append({**row, "done": [str(one) for one in schedule.steps]})
                rows[-1].update(schedule_run(stack, schedule, replicas=replicas > 0))
                step()
                if not rows[-1]["verified"]:
                    raise StackError(f"wrong rows: {rows[-1]['faults']}")
                session.note(_line(rows[-1]))
    except StackError as error:
        if len(rows) == done_before:
            raise  # nothing ran at all
        rows[-1]["problem"] = str(error)
        session.note(f"{_line(rows[-1])}\n{error}\nthe logs of its stack are kept in {logs}")


def _tighten(stack: BenchmarkStack, room: float) -> None:
    """Survivors get no room for all, so that several waves are needed. Measured, because machines differ."""
    stack.expect(lambda: _is_measured(stack), "measured costs", timeout=120)
    partitions = 100 * sum(row["cpu"] for row in stack.partitions().values())
    everywhere = [row["predicted_percent"] - row["planned_percent"] for row in stack.nodes("alive").values()]
    stack.capacities_set(math.ceil((fmean(everywhere) + room * partitions) / MAX_UTILISATION))


def _is_measured(stack: BenchmarkStack) -> bool:
    return all(row["cpu"] > 0 for row in stack.partitions().values()) and all(
        row["predicted_percent"] is not None for row in stack.nodes("alive").values()
    )


def _line(row: Mapping[str, Any]) -> str:
    verdict = "clean" if row["verified"] else "FAILED"
    return f"{row['seed']}: {', '.join(row['done'])}: {row.get('seconds', '-')} s, {verdict}"


def _report(rows: list[dict[str, Any]], *, seed: int, first: int) -> Report:
    clean = sum(row["verified"] for row in rows)
    kills = sum(done.split(" ", 1)[1].startswith("kill ") for row in rows for done in row["done"])
    return Report(
        parameters={"nodes": NODES, "rate": RATE, "delay": DELAY, "seed": seed, "first": first},
        results={"schedules": rows, "kills": kills},
        criteria=[
            at_least("schedules verified clean / schedules", clean / max(1, len(rows)), 1.0),
            at_least("schedules", len(rows), ASKED_FOR),
        ],
        tables=[schedules_table(rows)],
    )


def schedules_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title=f"{len(rows)} schedules, {NODES} nodes, {RATE} tweets/s", title_justify="left")
    for column in ("seed", "what", "seconds", "incidents", "waves", "verify"):
        table.add_column(column, justify="left" if column in ("seed", "what") else "right")
    for row in rows:
        table.add_row(
            row["seed"],
            ", ".join(row["done"]),
            str(row.get("seconds", "-")),
            str(len(row.get("incidents", ()))),
            str(row.get("waves", "-")),
            "clean" if row["verified"] else f"FAILED: {row['problem'][:80]}",
        )
    return table


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--count", type=int, default=ASKED_FOR, help="how many schedules (default 30)")
    parser.add_argument("--seed", type=int, default=1, help="what they are drawn from (default 1)")
    parser.add_argument("--first", type=int, default=1, help="number of the first, to repeat one of a seed")
    parser.add_argument(
        "--replicas", type=int, default=0, help="replicas to run, with tentative output (default 0: none)"
    )
    parser.add_argument(
        "--logs", type=Path, default=Path("failed-schedules"), help="where logs of failed ones are kept"
    )


if __name__ == "__main__":
    sys.exit(run(name="kill_schedules", about=__doc__, measure=measure, arguments=arguments))
