"""`manage.py checkpoints inspect|verify <topology>`: what the storage holds, and whether it is whole."""

from __future__ import annotations

from argparse import ArgumentParser
from contextlib import closing
from typing import Any

import msgspec
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from controlplane.checkpoints.models import Checkpoint
from domain.health.shape import counted
from spark_jobs.state.checkpoint_check import CheckpointLook, look
from spark_jobs.state.checkpoint_storage import CheckpointStorage, Deployment
from spark_jobs.state.sealed import DamagedError
from spark_jobs.state.state_storage import StorageError


class Command(BaseCommand):
    help = (
        "Look at the checkpoints of a topology in their storage (RESURGE_CHECKPOINTS). `inspect` reads"
        " manifests, `verify` every file as well, and compares it with its checksum. Changes nothing. Exit"
        " code 0: every complete checkpoint is whole; 1: one is not; 2: they could not be looked at."
    )
    # `manage.py migrate` and `check` look at the settings; doing it again doubles the time to start.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=("inspect", "verify"))
        parser.add_argument("topology")
        parser.add_argument("--checkpoint", type=int, metavar="N", help="this one only")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
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

    def _look(
        self,
        storage: CheckpointStorage,
        deployment: Deployment,
        *,
        complete: dict[int, int],
        chosen: int | None,
        content: bool,
    ) -> list[CheckpointLook]:
        bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            console=Console(file=self.stderr._out), transient=True,
        )  # fmt: skip
        with bar:
            task = bar.add_task("Listing", total=None)
            return look(
                storage,
                deployment,
                complete=complete,
                chosen=chosen,
                content=content,
                progress=lambda what, done, total: bar.update(
                    task, description=what, completed=done, total=total
                ),
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
