"""`resurge topologies create|update|deploy`: from a file, a ready-made pipeline, or an existing topology."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from cli import completion
from cli.acting import act
from cli.asking import reasoned
from cli.commands.topologies import TOPOLOGY
from cli.failures import RefusedError
from cli.numbers import Number
from cli.options import Order, ResurgeCommand, changes, with_session
from cli.output import show
from cli.paths import resource
from cli.session import Session

LARGEST = 4_000_000
OF_SOURCES = ("input", "rate", "limit", "arrivals", "speedup")
FILES_OF_SOURCES = ("input", "arrivals")
FILES = frozenset({".yaml", ".yml", ".json"})


def specification_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--file` or `--pipeline` and the options that change it, given to the command as one dictionary: the
    fields of REST's request."""

    @wraps(function)
    def command(*arguments: Any, **given: Any) -> Any:
        file, pipeline = given.pop("file"), given.pop("pipeline")
        if file and pipeline:
            raise click.UsageError("give either --file or --pipeline")
        asked = {field: value for field in OF_SOURCES if (value := given.pop(field)) is not None}
        for field in FILES_OF_SOURCES:
            if field in asked and "://" not in asked[field]:
                # The server would resolve a relative path in its own directory.
                asked[field] = str(Path(asked[field]).expanduser().absolute())
        if pipeline:
            asked["pipeline"] = pipeline
        if file:
            asked["spec"] = specification_read(file)
        return function(*arguments, asked=asked, **given)

    options = (
        click.option(
            "-f",
            "--file",
            type=click.Path(exists=True, dir_okay=False, allow_dash=True),
            help="a specification, YAML or JSON; - for standard input",
        ),
        click.option("--pipeline", shell_complete=completion.PIPELINES, help="a ready-made topology"),
        click.option(
            "--input", type=click.Path(), help="the input of its sources: a file on the server, or a URL"
        ),
        click.option("--rate", type=click.IntRange(min=1), help="tuples per second"),
        click.option(
            "--limit",
            type=click.IntRange(min=1),
            help="number of tuples after which the topology is complete",
        ),
        click.option(
            "--arrivals", type=click.Path(), help="the rates at which tuples arrive: a CSV file on the server"
        ),
        click.option("--speedup", type=Number(min=0.01), help="how many times as fast its times pass"),
    )
    for option in reversed(options):
        command = option(command)
    return command


def specification_read(file: str) -> str:
    """The text of a specification; the server checks it. Raises `click.UsageError`."""
    try:
        text = sys.stdin.read(LARGEST + 1) if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{file} cannot be read as text: {error}") from None
    if len(text) > LARGEST:
        raise click.UsageError(f"{file} is longer than {LARGEST:,} characters")
    if not text.strip():
        raise click.UsageError(f"{file} is empty")
    return text


@click.command("create", cls=ResurgeCommand)
@click.argument("name", required=False)
@specification_options
@changes(waits=False, keyed=True)
@with_session
def create(session: Session, name: str | None, asked: dict[str, Any], order: Order) -> None:
    """Add a topology without deploying it. NAME replaces the one in the specification.

    \b
    Examples:
      resurge topologies create -f counts.yaml --reason "first version"
      resurge topologies create trends --pipeline trending --input tweets.parquet
    """
    if "spec" not in asked and "pipeline" not in asked:
        raise click.UsageError("say what to create: --file or --pipeline")
    row = _create(session, name, asked, reasoned(session, order))
    show(session, row, TOPOLOGY)


@click.command("update", cls=ResurgeCommand)
@click.argument("name", shell_complete=completion.TOPOLOGIES)
@click.option(
    "-f",
    "--file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="the whole new specification, YAML or JSON; - for standard input",
)
@changes(waits=False)
@with_session
def update(session: Session, name: str, file: str, order: Order) -> None:
    """Give a topology that is not deployed a new version.

    \b
    Example:
      resurge topologies update counts -f counts.yaml --reason "two more windows"
    """
    text = specification_read(file)
    show(session, _update(session, name, text, reasoned(session, order)), TOPOLOGY)


@click.command("deploy", cls=ResurgeCommand)
@click.argument("name", required=False, shell_complete=completion.TOPOLOGIES)
@specification_options
@click.option(
    "--continue",
    "goes_on",
    is_flag=True,
    help="go on from its newest checkpoint, where the new version fits it, instead of the first tuple",
)
@click.option(
    "--savepoint",
    metavar="NAME",
    shell_complete=completion.SAVEPOINTS,
    help="begin with this savepoint, where the new version fits it, instead of the first tuple",
)
@changes()
@with_session
def deploy(
    session: Session,
    name: str | None,
    asked: dict[str, Any],
    goes_on: bool,
    savepoint: str | None,
    order: Order,
) -> None:
    """Start a topology: an existing one, or one from a file or pipeline.

    It starts with its first tuple and without state; with --continue from its newest checkpoint; with
    --savepoint from that, as a new deployment. With --file an existing topology NAME gets a new version. It
    must not be running.

    \b
    Examples:
      resurge topologies deploy hashtags --continue --reason "back after the maintenance"
      resurge topologies deploy hashtags --savepoint before-v2 --reason "version 2 was wrong"
      resurge topologies deploy -f counts.yaml --reason "first run"
      resurge topologies deploy counts -f counts.yaml --reason "two more windows"
      resurge topologies deploy --pipeline hashtags --input tweets.parquet --rate 1000
    """
    if goes_on and savepoint:
        raise click.UsageError("give either --continue or --savepoint")
    order = reasoned(session, order)
    if "spec" in asked and name is not None:
        _bring(session, name, asked, order, new=not goes_on)
    elif "spec" in asked or "pipeline" in asked:
        if goes_on:
            raise click.UsageError("--continue needs the NAME of a topology that has run")
        name = _create(session, name, asked, order.part("create"))["name"]
    elif asked:
        options = ", ".join(f"--{field}" for field in OF_SOURCES)
        raise click.UsageError(f"{options} go with --file or --pipeline")
    elif name is None:
        raise click.UsageError("name what to deploy: a topology, --file or --pipeline")
    elif Path(name).suffix in FILES or os.sep in name:
        raise click.UsageError(f"{name} looks like a file: write -f {name}")
    body = {"start": "checkpoint"} if goes_on else {}
    if savepoint:
        body = {"start": "savepoint", "savepoint": savepoint}
    act(session, resource("topologies", name, "deploy"), order, title=f"deploy {name}", body=body)


def _bring(session: Session, name: str, asked: dict[str, Any], order: Order, *, new: bool) -> None:
    """Create it, or give it a new version where it exists; not `new`: it has to exist.

    It is created without a look whether it exists, since the same key gives the first answer back.
    """
    if new:
        try:
            _create(session, name, asked, order.part("create"))
        except RefusedError as error:
            if error.status != 409 or "Idempotency-Key" in error.message:
                raise
        else:
            return
    if len(asked) > 1:
        raise click.UsageError(
            f"{name} exists already, and its new version names its input: leave out "
            f"{', '.join(f'--{field}' for field in OF_SOURCES)}"
        )
    _update(session, name, asked["spec"], order)


def _create(session: Session, name: str | None, asked: dict[str, Any], order: Order) -> dict[str, Any]:
    body = {**asked, **({"name": name} if name else {}), "reason": order.reason}
    try:
        row: dict[str, Any] = session.rest.post("topologies/", body, key=order.key)
    except RefusedError as error:
        if error.status == 409 and name is None and "Idempotency-Key" not in error.message:
            raise RefusedError(f"{error.message} (name it before --file to give it a new version)") from None
        raise
    return row


def _update(session: Session, name: str, text: str, order: Order) -> dict[str, Any]:
    body = {"spec": text, "reason": order.reason}
    row: dict[str, Any] = session.rest.put(resource("topologies", name), body)
    return row
