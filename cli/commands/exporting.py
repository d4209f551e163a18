"""`resurge incidents export`: an incident as one document, or as a report to read."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cli.commands.incidents import number_argument
from cli.options import ResurgeCommand, with_session
from cli.paths import resource
from cli.session import Session
from cli.words import size

MEDIA_TYPES = {"json": "application/json", "html": "text/html", "md": "text/markdown"}
ENDINGS = {".json": "json", ".html": "html", ".htm": "html", ".md": "md"}


@click.command("export", cls=ResurgeCommand)
@number_argument
@click.option(
    "--format",
    "form",
    type=click.Choice(tuple(MEDIA_TYPES)),
    help="json: everything, for programs; html, md: a report (default: what FILE ends with, else json)",
)
@click.option(
    "--to", "file", type=click.Path(dir_okay=False, allow_dash=True), help="a file; default: standard output"
)
@with_session
def export(session: Session, number: int, form: str | None, file: str | None) -> None:
    """Everything about an incident as one document, or as a report for readers.

    Samples of availability are kept for a day, so export before. FILE is replaced if it is there.

    \b
    Examples:
      resurge incidents export 7 --to incident-7.html
      resurge incidents export 7 | jq '.incident.failed_nodes'
    """
    to = Path(file) if file and file != "-" else None
    form = form or (ENDINGS.get(to.suffix.lower(), "json") if to else "json")
    path = resource("incidents", number, "export")
    content = session.rest.document(path, {"format": form}, media_type=MEDIA_TYPES[form])
    if to is None:
        sys.stdout.write(content.decode().rstrip("\n") + "\n")
        return
    try:
        to.write_bytes(content)
    except OSError as error:
        raise click.UsageError(f"{file} cannot be written: {error.strerror}") from None
    session.say(f"incident {number} is in {file} ({size(len(content))})")
