"""`manage.py verify <topology>`: does every query hold exactly the rows it must?"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import msgspec
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from controlplane.topologies.choices import Guarantee
from controlplane.topologies.models import Topology
from controlplane.verification.comparison import INSTANTS, Finding, QueryResult, instant
from controlplane.verification.operation import operation_verify
from controlplane.verification.problems import VerificationError
from controlplane.verification.subject import spec_that_ran
from controlplane.verification.verifying import Verification, topology_verify
from domain.execution.job import NO_WATERMARK

NUMBERS = ("expected", "found", "missing", "duplicate", "unexpected", "different")


class Command(BaseCommand):
    help = (
        "Recompute a topology's outputs from its original input, without the engine's operators, up to the"
        " last committed epoch, and compare. Exit code 0: every row is exactly right, or the guarantee of the"
        " topology is bounded and the share that deviates is printed; 1: some are not right; 2: it could not"
        " be verified."
    )
    # `manage.py migrate` and `check` look at the settings; doing it again doubles the time to start.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("topology", nargs="?")
        parser.add_argument(
            "--operation", metavar="ID", help="carry out this request, and record its outcome; no output"
        )
        parser.add_argument("--json", action="store_true", help="print the result as JSON")
        parser.add_argument("--rows", type=int, default=3, metavar="N", help="faulty rows to show per query")
        parser.add_argument(
            "--input", type=Path, metavar="FILE", help="a copy of the original input, where that is gone"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["operation"]:
            operation_verify(options["operation"])
            return
        name = options["topology"]
        if not name:
            raise CommandError("name a topology", returncode=2)
        topology = Topology.objects.filter(name=name).first()
        if topology is None:
            known = ", ".join(Topology.objects.values_list("name", flat=True)) or "none"
            raise CommandError(f"there is no topology {name!r}; there are: {known}", returncode=2)
        try:
            spec = spec_that_ran(topology)
            verification = self._verify(spec, topology.renewed, max(0, options["rows"]), options["input"])
        except VerificationError as error:
            raise CommandError(str(error), returncode=2) from error
        bounded = spec.get("guarantee") == Guarantee.BOUNDED
        if options["json"]:
            self.stdout.write(_json(verification))
        else:
            _show(Console(file=self.stdout._out, highlight=False), verification, bounded=bounded)
        if all(query.skipped for query in verification.queries):
            raise SystemExit(2)
        if not (verification.readable if bounded else verification.clean):
            raise SystemExit(1)

    def _verify(
        self, spec: dict[str, Any], renewed: list[str], examples: int, given: Path | None
    ) -> Verification:
        sources = [operator["name"] for operator in spec["operators"] if not operator.get("inputs")]
        if given and len(sources) > 1:
            raise VerificationError(
                where="--input", what=f"the topology has {len(sources)} sources", hint="Leave it out."
            )
        bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            console=Console(file=self.stderr._out), transient=True,
        )  # fmt: skip
        with bar:
            task = bar.add_task("Reading", total=None)
            return topology_verify(
                spec=spec,
                home=settings.RESURGE.home,
                outputs=Path(settings.RESURGE.outputs),
                renewed=renewed,
                inputs={sources[0]: given} if given else None,
                examples=examples,
                progress=lambda what, done, total: bar.update(
                    task, description=what, completed=done, total=total
                ),
            )


def _json(verification: Verification) -> str:
    data = msgspec.to_builtins(verification)
    data |= {"clean": verification.clean, "deviation": verification.deviation}
    for query, result in zip(data["queries"], verification.queries, strict=True):
        query |= {"clean": result.clean, "deviation": result.deviation}
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode()


def _show(console: Console, verification: Verification, *, bounded: bool) -> None:
    tuples = ", ".join(f"{count:,} tuples of {source}" for source, count in verification.tuples.items())
    watermark = verification.watermark_us
    moment = "" if watermark is None or watermark == NO_WATERMARK else f", watermark {instant(watermark)}"
    ended = ", input ended" if verification.final else ""
    reach = f"up to epoch {verification.epoch}, {tuples or 'nothing'}{moment}{ended}"
    console.print(f"{verification.topology}: {reach}", soft_wrap=True)
    table = Table()
    table.add_column("query")
    for number in NUMBERS:
        table.add_column(number, justify="right")
    table.add_column("")
    for query in verification.queries:
        inexact = "[yellow]inexact[/]" if bounded else "[red]wrong[/]"
        outcome = query.error or (f"not compared: {query.skipped}" if query.skipped else "")
        outcome = outcome or ("[green]exact[/]" if query.clean else inexact)
        if query.tentative:
            outcome += f" ({query.tentative:,} tentative rows not compared)"
        cells = ["" if query.skipped else f"{getattr(query, number):,}" for number in NUMBERS]
        table.add_row(query.query, *cells, outcome)
    console.print(table)
    for query in verification.queries:
        if query.beyond:
            console.print(f"{query.query}, not compared: {query.beyond}", markup=False, soft_wrap=True)
        for finding in query.examples:
            console.print(_sentence(query, finding), markup=False, soft_wrap=True)
    exact = sum(query.clean and not query.skipped for query in verification.queries)
    skipped = sum(bool(query.skipped) for query in verification.queries)
    rest = f", {skipped} not compared" if skipped else ""
    console.print(f"{exact} of {len(verification.queries)} queries are exact{rest}")
    if bounded:
        share = f"{100 * verification.deviation:.2f} %"
        console.print(f"bounded: {share} of the expected rows are missing, wrong or too many")


def _sentence(query: QueryResult, finding: Finding) -> str:
    row = ", ".join(
        f"{name}={instant(value)}" if name in INSTANTS else f"{name}={value!r}"
        for name, value in finding.row.items()
    )
    return f"{query.query} {finding.kind}: {row}: expected {finding.expected}, found {finding.found}"
