"""Signing in, and tokens: they are typed or read from a file, never arguments, and shown only on request."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import click

from cli import completion
from cli.asking import Effect, confirmed, reasoned
from cli.configuration import (
    Target,
    config_path,
    target_find,
    target_save,
    token_check,
    travels_openly,
    url_check,
)
from cli.failures import ConfigurationError, UnauthorisedError
from cli.keeping import Keeping, keeping_options, secret_keep
from cli.options import Order, ResurgeCommand, ResurgeGroup, changes, with_session
from cli.output import Column, field, show, show_rows
from cli.paths import resource
from cli.session import Session
from cli.words import clock

LONGEST_TOKEN = 4096
HOURS = {"h": 1.0, "d": 24.0, "w": 168.0}
_LIFETIME = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)([hdw])")

WHO = (
    Column("user", field("username")),
    Column("role", field("role")),
    Column("server", field("url")),
    Column("from", field("configured_in")),
)
TOKENS = (
    Column("KEY", field("token_key")),
    Column("CREATED", lambda row: clock(row["created"])),
    Column("EXPIRES", lambda row: clock(row["expiry"]) if row["expiry"] else "never"),
)
TOKEN = tuple(Column(column.title.lower(), column.value) for column in TOKENS)


@click.command(cls=ResurgeCommand)
@click.argument("server", required=False, metavar="[URL]")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="read the token from there, - for standard input; else it is asked for",
)
@with_session
def login(session: Session, server: str | None, token_file: str | None) -> None:
    """Store a server's address and a token in a file that only you can read.

    The token comes from the dashboard, from an administrator, or from `resurge tokens create`.

    \b
    Examples:
      resurge login https://resurge.example.com
      resurge login https://resurge.example.com --token-file - < token
    """
    url = url_check(server) if server else target_find(session.url).url
    if travels_openly(url):
        session.say(f"! {url} is not encrypted: others on the network can read the token. Use https://")
    token = _token_ask(session, url) if token_file is None else _token_read(token_file)
    target = Target(url, token_check(token), "what you entered")
    from cli.client import Rest

    rest = Rest(target, timeout=session.timeout)
    try:
        me = rest.get(resource("me"))
    except UnauthorisedError:
        raise UnauthorisedError(
            f"{url} does not accept this token: copy it again; nothing was stored"
        ) from None
    finally:
        rest.close()
    path = config_path()
    target_save(path, target)
    show(session, {**me, "url": url, "configured_in": str(path)}, WHO)


def _token_ask(session: Session, url: str) -> str:
    if not session.interactive:
        raise click.UsageError("cannot ask for the token without a terminal; pass --token-file")
    answer: str = click.prompt(f"Token for {url}", hide_input=True, err=True)
    return answer


def _token_read(file: str) -> str:
    try:
        return sys.stdin.read(LONGEST_TOKEN) if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}") from None


@click.command(cls=ResurgeCommand)
@with_session
def logout(session: Session) -> None:
    """Delete the stored address and token. The token stays valid: `resurge tokens revoke` ends it."""
    path = config_path()
    try:
        path.unlink()
    except FileNotFoundError:
        session.say("nothing was kept")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be removed: {error.strerror}") from None
    else:
        session.say(f"{path} is removed")


@click.command(cls=ResurgeCommand)
@with_session
def whoami(session: Session) -> None:
    """Show the server, the user and the role."""
    me = session.rest.get(resource("me"))
    show(session, {**me, "url": session.target.url, "configured_in": session.target.source}, WHO)


@click.group(cls=ResurgeGroup)
def tokens() -> None:
    """Your API tokens; each has your rights."""


@tokens.command("list")
@with_session
def list_(session: Session) -> None:
    """Your tokens, by key (the beginning of a token). The server does not store their texts."""
    show_rows(session, session.rest.rows(resource("tokens")), TOKENS, empty="You have no tokens.")


class Lifetime(click.ParamType[float]):
    """`12h`, `30d`, `8w`, or `never`; in hours, 0 for never."""

    name = "lifetime"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = _LIFETIME.fullmatch(value)
        if value != "never" and (found is None or float(found[1]) == 0):
            self.fail(f"{value!r}: write 12h, 30d, 8w or never", param, ctx)
        return float(found[1]) * HOURS[found[2]] if found else 0.0


@tokens.command("create")
@click.option(
    "--lifetime",
    type=Lifetime(),
    default="90d",
    show_default=True,
    metavar="12h|30d|never",
    help="how long it is valid",
)
@keeping_options("token")
@changes(waits=False)
@with_session
def create(session: Session, lifetime: float, keeping: Keeping, order: Order) -> None:
    """Make a token. The server shows it only once, so say where to write it.

    \b
    Examples:
      resurge tokens create --to ci.token --lifetime 30d --reason "for the pipeline"
      resurge tokens create --show --reason "for my laptop"
    """
    order = reasoned(session, order)
    body = {"reason": order.reason, **({"lifetime_hours": lifetime} if lifetime else {})}
    secret_keep(session, keeping, lambda: _made(session, body), "token", TOKEN)


def _made(session: Session, body: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = session.rest.post(resource("tokens"), body)
    return row


@tokens.command("revoke")
@click.argument("key", shell_complete=completion.TOKENS)
@changes(destructive=True, waits=False)
@with_session
def revoke(session: Session, key: str, order: Order) -> None:
    """Revoke a token at once. KEY is its beginning, as `resurge tokens list` shows it.

    \b
    Example:
      resurge tokens revoke 3f1c09ab77d2e01 --reason "the laptop is lost" --yes
    """

    def effects() -> list[Effect]:
        own = session.target.token.startswith(key)
        return [
            Effect(f"Programs that use {key} are refused from now on.", warning=True),
            *([Effect("This command itself uses this token.", warning=True)] if own else []),
        ]

    order = confirmed(session, order, f"revoke the token {key}", effects)
    session.rest.delete(resource("tokens", key), order.reason)
    session.say(f"{key} is revoked")
