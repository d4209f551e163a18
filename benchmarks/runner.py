"""What every benchmark shares: the command line, the progress bar, the tables and the JSON report.

A benchmark is a function from a `Session` to a `Report`, and if it can be drawn, one from the report's
results to a matplotlib figure:

    if __name__ == "__main__":
        sys.exit(run(name="planning", about=__doc__, measure=measure, draw=draw))

The JSON holds `machine`, `parameters`, `results` and `criteria`, a list of {name, value, bound, holds};
`results` keeps medians and what the plot needs, not every measurement.
The exit code is 1 if a criterion does not hold.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from benchmarks.compact import compact
from supervision.checks import SKIPPED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Versions that a figure can depend on.
PACKAGES = ("numpy", "highspy", "pyspark", "pyarrow", "duckdb", "django", "celery")
# Entries of a plot's legend can be told apart in grey and by people who see few colours.
COLOURS = ("#0b6e99", "#d1495b", "#3f7d20", "#8f5db7", "#b8860b", "#444444")
MARKERS = ("o", "s", "^", "D", "v", "x")


@dataclass(frozen=True, slots=True)
class Criterion:
    """One measured number and its bound. `bound` reads like `>= 0.97`."""

    name: str
    value: float
    bound: str
    holds: bool


def at_least(name: str, value: float, bound: float) -> Criterion:
    return Criterion(name, round(value, 6), f">= {bound:g}", value >= bound)


def at_most(name: str, value: float, bound: float) -> Criterion:
    return Criterion(name, round(value, 6), f"<= {bound:g}", value <= bound)


@dataclass(slots=True)
class Report:
    """What a benchmark found. `results` is plain data; `tables` are for the screen only. skipped: why nothing
    could be measured on this machine, empty if it was."""

    parameters: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    criteria: list[Criterion] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    skipped: str = ""


class Session:
    """A run of a benchmark: `quick` asks for a smaller one, `progress` draws the bar, `options` are those of
    its own."""

    def __init__(self, *, quick: bool, console: Console, options: argparse.Namespace | None = None) -> None:
        self.quick = quick
        self.console = console
        self.options = options or argparse.Namespace()

    @contextmanager
    def progress(self, label: str, total: int) -> Iterator[Callable[[], None]]:
        """A bar that the yielded function advances by one."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self.console) as bar:
            task = bar.add_task(label, total=total)
            yield lambda: bar.advance(task)

    def note(self, text: str) -> None:
        self.console.print(text)


def ratio_of_medians(measured: Sequence[float], baseline: Sequence[float]) -> float:
    return statistics.median(measured) / statistics.median(baseline)


def machine() -> dict[str, Any]:
    """The machine and the versions a figure was made with."""
    versions: dict[str, str] = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(pages * page / 2**30, 1),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "packages": versions,
        "load_at_start": round(os.getloadavg()[0], 2),
        "commit": _commit(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _commit() -> str | None:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None if done.returncode == 0 else None


def run(
    *,
    name: str,
    about: str | None,
    measure: Callable[[Session], Report],
    draw: Callable[[dict[str, Any]], Figure] | None = None,
    arguments: Callable[[argparse.ArgumentParser], None] | None = None,
    argv: Sequence[str] | None = None,
) -> int:
    """Measure, print the tables, write the requested files. 0 if all criteria hold, `SKIPPED` if nothing
    could be measured. `arguments` adds options."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=about)
    parser.add_argument("--quick", action="store_true", help="a smaller run, for a first impression")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report here")
    if draw is not None:
        parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the results (SVG)")
    if arguments is not None:
        arguments(parser)
    options = parser.parse_args(argv)
    console = Console(stderr=False)
    where = machine()
    started, clock = datetime.now(UTC), time.perf_counter()
    report = measure(Session(quick=options.quick, console=console, options=options))
    for table in [*report.tables, _criteria_table(report.criteria)]:
        console.print(table)
    document = {
        "benchmark": name,
        "started_at": started.isoformat(timespec="seconds"),
        "seconds": round(time.perf_counter() - clock, 1),
        "machine": where,
        "parameters": {"quick": options.quick, **report.parameters},
        "results": report.results,
        "criteria": [asdict(criterion) for criterion in report.criteria],
    }
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(compact(document) + "\n", encoding="utf-8")
        console.print(f"report: {options.json}")
    if draw is not None and options.plot is not None:
        save(draw(report.results), options.plot)
        console.print(f"plot: {options.plot}")
    if report.skipped:
        return SKIPPED
    return 0 if all(criterion.holds for criterion in report.criteria) else 1


def _criteria_table(criteria: Sequence[Criterion]) -> Table:
    table = Table(title="Criteria", title_justify="left")
    for column in ("criterion", "value", "bound", ""):
        table.add_column(column, justify="left" if column == "criterion" else "right")
    for criterion in criteria:
        verdict = "[green]holds[/]" if criterion.holds else "[red]does not hold[/]"
        table.add_row(criterion.name, f"{criterion.value:g}", criterion.bound, verdict)
    return table


def save(figure: Figure, path: Path) -> None:
    """Write an SVG that is the same for the same results: no date, fixed element ids."""
    import matplotlib as mpl

    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": "resurge", "svg.fonttype": "none"}):
        figure.savefig(path, format="svg", metadata={"Date": None}, bbox_inches="tight")


def figure(columns: int, rows: int = 1, *, width: float = 4.2, height: float = 3.2) -> tuple[Figure, Any]:
    """A figure with a grid of axes, independent of any display."""
    from matplotlib.figure import Figure as NewFigure

    drawn = NewFigure(figsize=(width * columns, height * rows), layout="constrained")
    axes = drawn.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.grid(visible=True, linewidth=0.4, alpha=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    return drawn, axes


if __name__ == "__main__":
    sys.exit("run one of the benchmarks in this package: python -m benchmarks.planning")
