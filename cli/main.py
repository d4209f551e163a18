"""The program: its commands and the handling of their errors."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

import click
from click.shell_completion import get_completion_class

from cli import __version__
from cli.commands import alert_rules
from cli.commands.access import login, logout, tokens, whoami
from cli.commands.alerts import alerts
from cli.commands.delivering import deliveries, delivery, redeliver, test
from cli.commands.deploying import create, deploy, update
from cli.commands.events import events
from cli.commands.exporting import export
from cli.commands.incidents import incidents
from cli.commands.nodes import nodes
from cli.commands.parking import park, unpark
from cli.commands.queries import policy, queries
from cli.commands.racks import racks
from cli.commands.records import audit, checkpoints, operations, pipelines, problems, settings
from cli.commands.replicas import replicas
from cli.commands.results import results
from cli.commands.savepoints import savepoints
from cli.commands.topologies import topologies
from cli.commands.validating import validate
from cli.commands.watch import watch
from cli.commands.webhooks import webhooks
from cli.commands.what_if import what_if
from cli.failures import Exit
from cli.options import ResurgeGroup, common_options
from cli.session import Session
from cli.words import plain

PROGRAM = "resurge"


@click.group(
    cls=ResurgeGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name=PROGRAM)
def resurge() -> None:
    """Watch stream-processing topologies, and recover them when many nodes fail at once.

    Sign in with `resurge login`, or set RESURGE_URL and RESURGE_TOKEN. Answers are tables on a
    terminal and JSON elsewhere. Every change needs a --reason.

    \b
    Examples:
      resurge login https://resurge.example.com
      resurge watch
      resurge incidents list --open
      resurge nodes drain node-3 --reason "its disk will be replaced"
      resurge what-if --rack rack-b

    \b
    Exit codes:
      0 done                      4 no token, or not permitted
      1 refused, or failed        5 timed out
      2 wrong usage, bad file     6 named object not found
      3 server not reachable      130 interrupted
    """


@resurge.command("completion")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Print the script that lets a shell complete commands and names from the server.

    \b
    Examples:
      resurge completion bash >> ~/.bashrc
      resurge completion zsh >> ~/.zshrc
      resurge completion fish > ~/.config/fish/completions/resurge.fish
    """
    found = get_completion_class(shell)
    assert found is not None  # noqa: S101 - click has all three
    click.echo(found(resurge, {}, PROGRAM, "_RESURGE_COMPLETE").source())


COMMANDS: tuple[click.Command, ...] = (
    watch,
    topologies,
    queries,
    results,
    replicas,
    policy,
    nodes,
    racks,
    incidents,
    alerts,
    what_if,
    checkpoints,
    savepoints,
    operations,
    events,
    problems,
    audit,
    pipelines,
    settings,
    webhooks,
    tokens,
    login,
    logout,
    whoami,
)
for command in COMMANDS:
    resurge.add_command(command)
# Also before the resource, where one may look for them first.
resurge.params.extend(common_options())
for command in (validate, create, update, deploy):
    topologies.add_command(command)
for command in (park, unpark):
    queries.add_command(command)
incidents.add_command(export)
for command in (
    alert_rules.rules,
    alert_rules.rule,
    alert_rules.create,
    alert_rules.set_,
    alert_rules.delete,
    alert_rules.export,
):
    alerts.add_command(command)
for command in (test, deliveries, delivery, redeliver):
    webhooks.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ● gets a ?
    try:
        code = resurge.main(arguments, prog_name=PROGRAM, standalone_mode=False, obj=Session())
        sys.stdout.flush()
    except click.UsageError as error:
        hint = f" (`{error.ctx.command_path} --help`)" if error.ctx is not None else ""
        sys.stderr.write(f"resurge: {plain(error.format_message())}{hint}\n")
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except UnicodeEncodeError:  # output replaces what it cannot hold, so this is of an argument
        sys.stderr.write("resurge: an argument or a variable is not a text in UTF-8: write it again\n")
        return Exit.USAGE
    except click.Abort:
        sys.stderr.write("resurge: interrupted\n")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader has closed the pipe.
        _output_drop()
        return Exit.OK
    except KeyError as error:  # fields are only added, so a server that lacks one is of an earlier version
        sys.stderr.write(
            f"resurge: what the server answered cannot be shown without {error}: it may be of an earlier "
            "version than this command. Install the command from the server's checkout, or ask with -o json\n"
        )
        return Exit.UNREACHABLE
    except OSError as error:  # of a full disk, for instance; what the network does is an error of its own
        _output_drop()
        sys.stderr.write(f"resurge: the output cannot be written: {error.strerror or error}\n")
        return Exit.USAGE
    return code if isinstance(code, int) else Exit.OK


def _output_drop() -> None:
    """Nothing may be flushed into it at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def program() -> None:
    """The console script."""
    sys.exit(main())
