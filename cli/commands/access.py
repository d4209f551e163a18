"""Signing in, and tokens: typed or read from a file, never an argument, and shown only when asked for."""

from __future__ import annotations

import os
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
from cli.options import Order, ResurgeCommand, ResurgeGroup, changes, with_session
from cli.output import Column, dump, field, show, show_rows
from cli.paths import resource
from cli.session import Session
from cli.words import clock

LONGEST_TOKEN = 4096
HOURS = {"h": 1.0, "d": 24.0, "w": 168.0}
_LIFETIME = re.compile(r"(\d+(?:\.\d+)?)([hdw])")

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


@click.command(cls=ResurgeCommand)
@click.argument("server", required=False, metavar="[URL]")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="read the token from there, - for standard input; else it is asked for",
)
@with_session
def login(session: Session, server: str | None, token_file: str | None) -> None:
    """Keep a server's address and a token, in a file that only you can read.

    The token comes from the dashboard, from an administrator, or from `resurge tokens create`.

    \b
    Examples:
      resurge login https://resurge.example.com
      resurge login https://resurge.example.com --token-file - < token
    """
    url = url_check(server) if server else target_find(session.url).url
    if travels_openly(url):
        session.say(f"! {url} is not encrypted: everybody on the way can read the token. Use https://")
    token = _token_ask(session, url) if token_file is None else _token_read(token_file)
    target = Target(url, token_check(token), "what you entered")
    from cli.client import Rest

    rest = Rest(target, timeout=session.timeout)
    try:
        me = rest.get(resource("me"))
    except UnauthorisedError:
        raise UnauthorisedError(
            f"{url} does not accept this token: copy it again; nothing was kept"
        ) from None
    finally:
        rest.close()
    path = config_path()
    target_save(path, target)
    show(session, {**me, "url": url, "configured_in": str(path)}, WHO)


def _token_ask(session: Session, url: str) -> str:
    if not session.interactive:
        raise click.UsageError("nobody can be asked for the token here: use --token-file")
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
    """Forget the kept address and token. The token stays valid: `resurge tokens revoke` ends it."""
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
    """Which server, as whom, with which role."""
    me = session.rest.get(resource("me"))
    show(session, {**me, "url": session.target.url, "configured_in": session.target.source}, WHO)


@click.group(cls=ResurgeGroup)
def tokens() -> None:
    """Your API tokens; each has your rights."""


@tokens.command("list")
@with_session
def list_(session: Session) -> None:
    """By key, which is how a token begins. Their texts are kept nowhere."""
    show_rows(session, session.rest.rows(resource("tokens")), TOKENS, empty="You have no token.")


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
@click.option(
    "--to", "file", type=click.Path(dir_okay=False), help="a new file, for you only, that gets the token"
)
@click.option("--show", "shown", is_flag=True, help="print the token")
@changes(waits=False)
@with_session
def create(session: Session, lifetime: float, file: str | None, shown: bool, order: Order) -> None:
    """Make a token. The server shows it this once, so say where it goes.

    \b
    Examples:
      resurge tokens create --to ci.token --lifetime 30d --reason "for the pipeline"
      resurge tokens create --show --reason "for my laptop"
    """
    if not file and not shown:
        raise click.UsageError("say where the token goes: --to FILE, or --show to print it")
    order = reasoned(session, order)
    handle = _private_file(file) if file else None
    body = {"reason": order.reason, **({"lifetime_hours": lifetime} if lifetime else {})}
    try:
        row = session.rest.post(resource("tokens"), body)
    except BaseException:
        if handle is not None and file:
            os.close(handle)
            os.unlink(file)
        raise
    token = row.pop("token")
    if handle is not None:
        with os.fdopen(handle, "w", encoding="ascii") as out:
            out.write(f"{token}\n")
        row["file"] = file
    if shown:
        row["token"] = token
    extra = tuple(Column(name.upper(), field(name)) for name in ("file", "token") if name in row)
    if session.format == "json":
        dump(row)
    else:
        show(session, row, tuple(Column(one.title.lower(), one.value) for one in (*TOKENS, *extra)))


def _private_file(file: str) -> int:
    """A new file for its owner only, before anything is made that would be lost without it."""
    try:
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise click.UsageError(f"{file} is there already: name a new file") from None
    except OSError as error:
        raise click.UsageError(f"{file} cannot be written: {error.strerror}") from None


@tokens.command("revoke")
@click.argument("key", shell_complete=completion.TOKENS)
@changes(destructive=True, waits=False)
@with_session
def revoke(session: Session, key: str, order: Order) -> None:
    """End a token at once. KEY is how it begins, as `resurge tokens list` shows it.

    \b
    Example:
      resurge tokens revoke 3f1c09ab77d2e01 --reason "the laptop is lost" --yes
    """

    def effects() -> list[Effect]:
        own = session.target.token.startswith(key)
        return [
            Effect(f"Whatever uses {key} is refused from now on.", warning=True),
            *([Effect("It is the token this command uses itself.", warning=True)] if own else []),
        ]

    order = confirmed(session, order, f"revoke the token {key}", effects)
    session.rest.delete(resource("tokens", key), order.reason)
    session.say(f"{key} is revoked")
