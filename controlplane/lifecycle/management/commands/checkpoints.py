"""`manage.py checkpoints inspect|verify|export|import`: what the storage holds, whether it is whole, and one
of it as a file."""

from __future__ import annotations

import getpass
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from controlplane.checkpoints.models import Checkpoint
from controlplane.errors import ServiceError
from controlplane.events.choices import Channel
from controlplane.lifecycle.saving import checkpoint_export, savepoint_export, savepoint_import
from domain.health.shape import counted
from spark_jobs.state.archive import SavepointArchive
from spark_jobs.state.checkpoint_check import CheckpointLook, look
from spark_jobs.state.checkpoint_storage import CheckpointStorage, Deployment
from spark_jobs.state.sealed import DamagedError
from spark_jobs.state.state_storage import StorageError


class Command(BaseCommand):
    help = (
        "Look at the checkpoints of a topology in their storage (RESURGE_CHECKPOINTS). `inspect` reads"
        " manifests, `verify` every file as well, and compares it with its checksum. Changes nothing."
        " `export` writes a checkpoint, or a savepoint, to one file; `import` makes such a file a savepoint."
        " Exit code 0: done, every complete checkpoint is whole; 1: one is not; 2: it could not be done."
    )
    # `manage.py migrate` and `check` look at the settings; doing it again doubles the time to start.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=("inspect", "verify", "export", "import"))
        parser.add_argument("topology", nargs="?")
        parser.add_argument("--checkpoint", type=int, metavar="N", help="this one only")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")
        parser.add_argument("--file", type=Path, help="what is exported to, or imported from")
        parser.add_argument("--savepoint", metavar="NAME", help="export this one, or import under this name")
        parser.add_argument("--reason", default="imported from a file", help="why it is imported")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] in ("export", "import"):
            try:
                (self._export if options["action"] == "export" else self._import)(options)
            except (StorageError, DamagedError, ServiceError, OSError) as error:
                raise CommandError(str(error), returncode=2) from error
            return
        if not options["topology"]:
            raise CommandError("name a topology", returncode=2)
        name, chosen = options["topology"], options["checkpoint"]
        stored = Checkpoint.objects.filter(topology__name=name, stored=True)
        try:
            with closing(CheckpointStorage(settings.RESURGE.checkpoints)) as storage:
                deployments = storage.deployments(name)
                if not deployments:
                    raise CommandError(
                        f"{storage.place} holds no checkpoint of {name!r}: is it the storage of this "
                        "topology, and has a checkpoint completed?",
                        returncode=2,
                    )
                found = self._look(
                    storage,
                    Deployment(name, deployments[-1]),
                    complete=dict(stored.values_list("epoch", "total")),
                    chosen=chosen,
                    content=options["action"] == "verify",
                )
        except (StorageError, DamagedError) as error:
            raise CommandError(str(error), returncode=2) from error
        if chosen is not None and not found:
            raise CommandError(f"there is no checkpoint {chosen} of {name!r}", returncode=2)
        if options["json"]:
            self.stdout.write(_json(found))
        else:
            _show(Console(file=self.stdout._out, highlight=False), found)
        if any(one.damaged for one in found):
            raise SystemExit(1)

    def _export(self, options: dict[str, Any]) -> None:
        path: Path | None = options["file"]
        if path is None or bool(options["topology"]) == bool(options["savepoint"]):
            raise CommandError("give --file, and a topology or --savepoint", returncode=2)
        if path.exists():
            raise CommandError(f"{path} is there already: choose another name, or remove it", returncode=2)
        part = path.with_name(f".{path.name}.part")
        try:
            with self._bar("Copying") as progress:
                if options["savepoint"]:
                    savepoint_export(options["savepoint"], part)
                else:
                    checkpoint_export(options["topology"], options["checkpoint"], part, progress)
            with SavepointArchive(part) as archive:
                record = archive.record
            part.rename(path)
        finally:
            part.unlink(missing_ok=True)
        size = decimal(path.stat().st_size)
        self.stdout.write(f"{path}: checkpoint {record.checkpoint} of {record.topology}, {size}")

    def _import(self, options: dict[str, Any]) -> None:
        path: Path | None = options["file"]
        if path is None or not options["savepoint"] or options["topology"]:
            raise CommandError("give --file, and with --savepoint the name that it is to have", returncode=2)
        with self._bar("Reading") as progress:
            made = savepoint_import(
                path=path,
                name=options["savepoint"],
                actor=getpass.getuser(),
                channel=Channel.CLI,
                reason=options["reason"],
                progress=progress,
            )
        size = decimal(made.size_bytes)
        self.stdout.write(f"savepoint {made.name}: checkpoint {made.epoch} of {made.topology}, {size}")

    @contextmanager
    def _bar(self, title: str) -> Iterator[Callable[[str, int, int], None]]:
        bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            console=Console(file=self.stderr._out), transient=True,
        )  # fmt: skip
        with bar:
            task = bar.add_task(title, total=None)
            yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)

    def _look(
        self,
        storage: CheckpointStorage,
        deployment: Deployment,
        *,
        complete: dict[int, int],
        chosen: int | None,
        content: bool,
    ) -> list[CheckpointLook]:
        with self._bar("Listing") as progress:
            return look(
                storage,
                deployment,
                complete=complete,
                chosen=chosen,
                content=content,
                progress=progress,
            )


def _json(found: list[CheckpointLook]) -> str:
    data = [{**msgspec.to_builtins(one), "unnamed": one.unnamed, "damaged": one.damaged} for one in found]
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode()


def _show(console: Console, found: list[CheckpointLook]) -> None:
    table = Table()
    for column in ("checkpoint", "partitions", "files", "size"):
        table.add_column(column, justify="right")
    table.add_column("")
    for one in found:
        files = sum(part.files for part in one.partitions)
        size = sum(part.bytes for part in one.partitions)
        state = "[red]damaged[/]" if one.damaged else "[green]whole[/]" if one.complete else "not complete"
        table.add_row(str(one.checkpoint), str(len(one.partitions)), f"{files:,}", decimal(size), state)
    console.print(table)
    for one in found:
        for part in one.partitions:
            for problem in part.problems:
                console.print(f"{one.checkpoint} {part.partition}: {problem}", markup=False, soft_wrap=True)
        if one.complete and one.missing:
            names = ", ".join(one.missing)
            console.print(f"{one.checkpoint}: no manifest of {names}", markup=False, soft_wrap=True)
        if one.complete and one.unnamed:
            lacking = counted(one.unnamed, "partition")
            console.print(f"{one.checkpoint}: no manifest of {lacking} more", markup=False, soft_wrap=True)
    damaged = sum(one.damaged for one in found)
    console.print(f"{counted(len(found), 'checkpoint')}, {damaged} damaged")
