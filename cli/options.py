"""Options that commands share, and the command class that gives every command the common ones."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import wraps
from hashlib import sha256
from typing import Any

import click

from cli.durations import Duration
from cli.session import session_of

LONGEST_REASON = 1000
LONGEST_KEY = 128
WAIT = 600.0


@dataclass(frozen=True, slots=True)
class Order:
    """How a change is requested. `reason` is empty until the user has given it; `wait` is in seconds, 0 for
    no wait."""

    reason: str = ""
    yes: bool = False
    wait: float = WAIT
    key: str = field(default_factory=lambda: str(uuid.uuid4()))

    def part(self, name: str) -> Order:
        """For one of several requests of a command: each request gets its own key, derived from the given
        one, so that it can be repeated."""
        key = f"{self.key}/{name}"
        return replace(self, key=key if len(key) <= LONGEST_KEY else sha256(key.encode()).hexdigest())


def _set_format(context: click.Context, _: click.Parameter, value: Any) -> None:
    if value is not None:
        session_of(context).asked_format = value


def _set_url(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value:
        session_of(context).url = value


def _set_timeout(context: click.Context, _: click.Parameter, value: float | None) -> None:
    if value is not None:
        session_of(context).timeout = value


def common_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["-o", "--output"],
            type=click.Choice(["json", "table"]),
            callback=_set_format,
            expose_value=False,
            help="default: table on a terminal, else json",
        ),
        click.Option(
            ["--url"], metavar="URL", callback=_set_url, expose_value=False, help="the server's address"
        ),
        click.Option(
            ["--timeout"],
            type=Duration(0.1, 3600),
            metavar="DURATION",
            callback=_set_timeout,
            expose_value=False,
            help="how long to wait for each answer of the server; default 15",
        ),
    ]


class ResurgeCommand(click.Command):
    """A command with the common options after its own."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.params = [*self.params, *common_options()]


class ResurgeGroup(click.Group):
    """`resurge <resource>`: its actions in the order they were written in, and examples as they stand."""

    command_class = ResurgeCommand

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def with_session(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives the command the session as its first argument."""

    @wraps(function)
    def command(*arguments: Any, **given: Any) -> Any:
        return function(session_of(), *arguments, **given)

    return command


def reason_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "-r",
        "--reason",
        default="",
        metavar="TEXT",
        callback=_reason,
        help="the reason, for the audit trail (asked for on a terminal)",
    )(function)


def changes(
    *, destructive: bool = False, waits: bool = True, keyed: bool | None = None
) -> Callable[..., Any]:
    """The options of a change, given to the command as one `Order`. destructive: asks unless `--yes`;
    waits: it is followed to its end; keyed: it is sent with an Idempotency-Key (default: where it waits)."""
    keyed = waits if keyed is None else keyed

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def command(*arguments: Any, **given: Any) -> Any:
            chosen: dict[str, Any] = {"reason": given.pop("reason"), "yes": given.pop("yes", False)}
            if waits:
                wait, limit = given.pop("wait"), given.pop("wait_timeout")
                chosen["wait"] = limit if wait else 0.0
            if keyed and (key := given.pop("idempotency_key")):
                chosen["key"] = key
            return function(*arguments, order=Order(**chosen), **given)

        decorated: Callable[..., Any] = _key_option(command) if keyed else command
        decorated = _waiting_options(decorated) if waits else decorated
        if destructive:
            yes = click.option("-y", "--yes", is_flag=True, help="do not ask for confirmation")
            decorated = yes(decorated)
        return reason_option(decorated)

    return decorate


def _waiting_options(function: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option("--wait/--no-wait", default=True, help="follow the operation to its end (default)"),
        click.option(
            "--wait-timeout",
            type=Duration(0.1, 86_400),
            default=WAIT,
            show_default="10m",
            metavar="DURATION",
            help="after this time the command ends with code 5, and the operation continues",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def _key_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--idempotency-key",
        metavar="KEY",
        callback=_key,
        help="a request with the same key is not carried out twice (default: a new key)",
    )(function)


def _reason(_: click.Context, __: click.Parameter, value: str) -> str:
    if len(value) > LONGEST_REASON:
        raise click.BadParameter(f"longer than {LONGEST_REASON} characters")
    return value.strip()


def _key(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None and (
        not 0 < len(value) <= LONGEST_KEY or not value.isascii() or not value.isprintable()
    ):
        raise click.BadParameter(f"1 to {LONGEST_KEY} printable ASCII characters")
    return value
