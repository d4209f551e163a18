"""`resurge topologies validate`: all faults of a specification; nothing is changed."""

from __future__ import annotations

import click

from cli.commands.deploying import specification_read
from cli.failures import RefusedError
from cli.options import ResurgeCommand, with_session
from cli.output import Column, dump, field, record_of, table_of
from cli.paths import resource
from cli.session import Session
from cli.words import count, plural

OUTLINE = (
    Column("name", field("name")),
    Column("operators", lambda row: count(row["operators"])),
    Column("partitions", lambda row: count(row["partitions"])),
    Column("queries", lambda row: count(len(row["queries"]))),
)
PROBLEMS = (
    Column("LINE", lambda row: count(row.get("line")), right=True),
    Column("WHERE", field("path")),
    Column("WHAT", field("message")),
)


@click.command("validate", cls=ResurgeCommand)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@with_session
def validate(session: Session, file: str) -> None:
    """Show every fault of the specification in FILE, with its place.

    FILE is YAML or JSON, - is standard input. Nothing is changed. The check covers structure, meaning, and
    the server's files that sources name. Notes say what cannot be known of its operators. Ends with code 1 if
    there is a fault.

    \b
    Examples:
      resurge topologies validate counts.yaml
      resurge topologies validate counts.yaml -o json | jq -r '.problems[].path'
    """
    verdict = session.rest.post(resource("topologies", "validate"), {"spec": specification_read(file)})
    problems = verdict["problems"]
    if session.format == "json":
        dump(verdict)
    elif problems:
        session.console.print(table_of(problems, PROBLEMS, width=session.console.width))
    else:
        session.console.print(record_of(verdict["topology"], OUTLINE))
        for note in verdict.get("notes", ()):
            session.console.print(f"note: {note['path']}: {note['message']}", markup=False)
    if not verdict["valid"]:
        shown = "standard input" if file == "-" else file
        raise RefusedError(f"{shown} is not valid: {plural(len(problems), 'fault')}")
