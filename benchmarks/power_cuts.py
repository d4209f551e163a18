"""Power cuts under a whole installation: its home is on a file system that loses what was not forced to
disk.

At random moments (while it works, while nodes are recovered, while it starts) the file system is shut down,
all processes are killed, and the file system is mounted again. Then, with no process running, every row of
every epoch that had been reported as committed must be there, exact; and after the next start all queries
must come back, and every row be exact again (`manage.py verify`). A file that was never forced has to be lost
with each cut: only then is anything shown. Without loop devices it says so, and counts as skipped.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

from rich.table import Table

from benchmarks.runner import Report, Session, at_least, run
from benchmarks.schedules import victims_draw
from benchmarks.stack import TOPOLOGY, BenchmarkStack, StackError, pipeline_spec, stack_on, stopping_in_order
from controlplane.verification.verifying import topology_verify
from harness.eventually import eventually
from harness.lossy_disk import LossyDisk, NoLossyDiskError, lossy_disk
from host.processes import kill_session, send
from spark_jobs.driver.epoch_log import epoch_log_directory
from spark_jobs.sinks.committed import CommittedError, committed_read
from spark_jobs.sources.sample import sample_write
from supervision.rest import RestError

NODES = 4
RATE = 300
MOMENTS = ("working", "recovering", "starting")
LONGEST = 15.0
"""Seconds: three intervals of checkpoints."""
MEGABYTES = 4096
ASKED_FOR = 50
CANARY, NEVER_FORCED = "canary", b"never forced"


def measure(session: Session) -> Report:
    options = session.options
    count = min(options.count, 3) if session.quick else options.count
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="resurge-power-", ignore_cleanup_errors=True) as name:
        try:
            with stopping_in_order(), lossy_disk(Path(name), megabytes=MEGABYTES) as disk:
                _on_one_stack(session, Path(name), disk, rows, count)
        except NoLossyDiskError as error:
            session.note(f"skipped: {error}")
            return Report(results={"skipped": str(error)}, skipped=str(error))
        except KeyboardInterrupt:
            rows = [row for row in rows if row["verified"]]
            session.note(f"interrupted after {len(rows)} power cuts")
        except StackError as error:
            if not rows:
                raise  # nothing ran at all
            rows[-1]["problem"] = str(error)
            session.note(f"{rows[-1]}\nthe logs of its stack are kept in {options.logs}")
    return _report(rows, seed=options.seed, count=count)


def _on_one_stack(
    session: Session, directory: Path, disk: LossyDisk, rows: list[dict[str, Any]], count: int
) -> None:
    """One installation lives through all of them."""
    sample = directory / "sample.parquet"
    sample_write(sample)
    # Fast and dense: a checkpoint every 5 s, files of ten epochs are put together.
    spec = {**pipeline_spec(rate=RATE, epoch_interval=1.0), "sink": {"kind": "parquet", "compact_s": 10}}
    variables = {"RESURGE_CHECKPOINT_INTERVAL": "5"}
    with (
        session.progress("power cuts", count) as step,
        stack_on(disk.root, nodes=NODES, variables=variables, keep_logs=session.options.logs) as stack,
    ):
        stack.deploy_spec(spec, input=sample)
        stack.healthy()
        chosen = random.Random(session.options.seed)
        seen = 0
        for number in range(1, count + 1):
            moment, following = MOMENTS[number % len(MOMENTS)], MOMENTS[(number + 1) % len(MOMENTS)]
            row: dict[str, Any] = {"number": number, "moment": moment, "verified": False, "problem": ""}
            rows.append(row)
            seen = _power_cut(stack, disk, spec, chosen, seen, row)
            started = time.monotonic()
            stack.up()
            if following != "starting" or number == count:
                row["rows"] = _came_back(stack, seen)
                row["seconds"] = round(time.monotonic() - started, 1)
            row["verified"] = True
            step()
            session.note(", ".join(f"{name} {value}" for name, value in row.items() if value))


def _power_cut(
    stack: BenchmarkStack,
    disk: LossyDisk,
    spec: dict[str, Any],
    chosen: random.Random,
    seen: int,
    row: dict[str, Any],
) -> int:
    """`seen`: the newest epoch that was ever reported as committed; returns the one after this cut."""
    after = round(chosen.uniform(0.0, LONGEST), 2)
    if row["moment"] == "recovering":
        alive = [name for name in stack.nodes("alive") if stack.node_runs(name)]
        row["killed"] = victims_draw(str(chosen.random()), 0, alive, chosen.randint(1, 2))
        stack.kill_nodes(*row["killed"])
    seen = max(seen, _watched(stack, after))
    row |= {"after": after, "reported": seen, "ended": power_off(stack, disk)}
    if not _lost(disk.root / CANARY):
        raise StackError("a file that was never forced survived: this was no power cut")
    row["rows_at_rest"] = _verified_at_rest(stack, spec, seen)
    return seen


def _came_back(stack: BenchmarkStack, seen: int) -> int:
    """All queries are available, and exact; how many rows. The database may still say so of before: an epoch
    must have been committed since."""
    stack.expect(lambda: stack.topology(TOPOLOGY)["committed_epoch"] > seen, "a new epoch", timeout=240)
    stack.healthy()
    verdict = stack.verify()
    if not verdict.clean:
        raise StackError(f"wrong rows after the restart: {verdict.faults}")
    return verdict.rows


def _watched(stack: BenchmarkStack, seconds: float) -> int:
    """Look for so many seconds at what is reported as committed, to users and to readers of the outputs."""
    newest = 0
    ends = time.monotonic() + seconds
    while True:
        with contextlib.suppress(RestError, OSError):
            newest = max(newest, int(stack.topology(TOPOLOGY)["committed_epoch"]))
        with contextlib.suppress(CommittedError):
            listed = committed_read(stack.home / "outputs" / TOPOLOGY)
            newest = max(newest, listed.epoch if listed else 0)
        if time.monotonic() > ends:
            return newest
        time.sleep(0.05)


def power_off(stack: BenchmarkStack, disk: LossyDisk) -> int:
    """Shut the file system down, kill every process of the installation, mount it again; how many were
    killed."""
    sessions = stack.sessions()
    # A new file: ext4 forces one that was truncated, and the name is there since the last cut.
    (disk.root / CANARY).unlink(missing_ok=True)
    (disk.root / CANARY).write_bytes(NEVER_FORCED)
    disk.crash()
    ended = sum(kill_session(session) for session in sessions)
    deadline = time.monotonic() + 30
    while left := stack.processes():
        if time.monotonic() > deadline:
            raise StackError(f"processes left after the power was cut: {left}")
        ended += sum(send(pid, signal.SIGKILL) for pid in left)
        time.sleep(0.05)
    # The kernel closes the files of killed processes a moment later.
    eventually(lambda: _remounted(disk), "a file system that no process uses")
    return ended


def _remounted(disk: LossyDisk) -> bool:
    try:
        disk.remount()
    except CalledProcessError:
        return False
    return True


def _lost(path: Path) -> bool:
    return not path.is_file() or path.read_bytes() != NEVER_FORCED


def _verified_at_rest(stack: BenchmarkStack, spec: dict[str, Any], reported: int) -> int:
    """Compare all rows up to the epoch that was reported, whether or not the log's last line about it is
    there; how many there are. Raises `StackError`."""
    original = epoch_log_directory(stack.home, TOPOLOGY)
    with tempfile.TemporaryDirectory() as name:
        copy = epoch_log_directory(Path(name), TOPOLOGY)
        copy.mkdir(parents=True)
        for path in original.glob("*.json"):
            (copy / path.name).write_bytes(path.read_bytes())
        (copy / "epochs.log").write_bytes((original / "epochs.log").read_bytes() + _commit(reported))
        found = topology_verify(spec=spec, home=Path(name), outputs=stack.home / "outputs")
    if not found.clean:
        wrong = [query.query for query in found.queries if not query.clean or query.skipped]
        raise StackError(f"of epoch {reported} and before, reported as committed, rows are wrong: {wrong}")
    return sum(query.found for query in found.queries)


def _commit(epoch: int) -> bytes:
    return json.dumps({"t": "commit", "epoch": epoch}).encode() + b"\n"


def _report(rows: list[dict[str, Any]], *, seed: int, count: int) -> Report:
    table = Table(title=f"{len(rows)} power cuts, {NODES} nodes, {RATE} tweets/s", title_justify="left")
    columns = ("number", "moment", "after", "reported", "ended", "rows_at_rest", "seconds", "rows")
    for column in (*columns, "verify"):
        table.add_column(column, justify="left" if column == "moment" else "right")
    for row in rows:
        verdict = "clean" if row["verified"] else f"FAILED: {row['problem'][:80]}"
        table.add_row(*(str(row.get(column, "-")) for column in columns), verdict)
    clean = sum(row["verified"] for row in rows)
    return Report(
        parameters={"nodes": NODES, "rate": RATE, "seed": seed},
        results={"cuts": rows, "moments": dict(Counter(row["moment"] for row in rows))},
        criteria=[at_least("power cuts survived exactly / power cuts", clean / max(1, count), 1.0)],
        tables=[table],
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--count", type=int, default=ASKED_FOR, help=f"how many (default {ASKED_FOR})")
    parser.add_argument("--seed", type=int, default=1, help="what the moments are drawn from (default 1)")
    parser.add_argument(
        "--logs", type=Path, default=Path("failed-power-cuts"), help="where logs of a failed run are kept"
    )


if __name__ == "__main__":
    sys.exit(run(name="power_cuts", about=__doc__, measure=measure, arguments=arguments))
