"""`run/access.json`: how to sign in, for people and programs."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from pathlib import Path

import msgspec

from host.environment import ROOT
from host.private import write_private
from supervision.installation import Installation
from supervision.rest import Rest, RestError

USER = "admin"


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """What `run/access.json` holds."""

    url: str
    user: str
    password: str
    token: str


_decoder = msgspec.json.Decoder(Access)


class CommandFailedError(RuntimeError):
    """A management command failed; the message is what it said."""


def manage(installation: Installation, *arguments: str, variables: dict[str, str] | None = None) -> str:
    """Run `manage.py` in the installation's environment; its output. Raises `CommandFailedError`."""
    finished = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env={**installation.environment_of("manage"), **(variables or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode != 0:
        said = (finished.stderr.strip() or finished.stdout.strip()).splitlines()
        raise CommandFailedError(
            "\n".join(said[-15:]) or f"manage.py {arguments[0]}: code {finished.returncode}"
        )
    return finished.stdout


def access_path(home: Path) -> Path:
    return home / "run" / "access.json"


def access_read(home: Path) -> Access | None:
    try:
        return _decoder.decode(access_path(home).read_bytes())
    except (OSError, ValueError):
        return None


def access_ensure(installation: Installation, *, migrate: bool = False) -> Access:
    """The administrator exists, with the recorded password or a new one, and has a new token; the file says
    so. An account that the file names stays as users have made it: its password is empty then if it is
    another one, and so is the token where it is not active. migrate: the tables are created or updated first,
    by the same process, since each loads all of Django."""
    known = access_read(installation.home)
    password = (known.password if known else "") or secrets.token_urlsafe(12)
    arguments = ["ensure_admin", "--username", USER, "--token", *(["--keep"] if known else [])]
    arguments += ["--migrate"] if migrate else []
    answer = json.loads(manage(installation, *arguments, variables={"RESURGE_ADMIN_PASSWORD": password}))
    access = Access(
        url=installation.url,
        user=USER,
        password=password if answer["password"] else "",
        token=answer.get("token", ""),
    )
    write_private(access_path(installation.home), msgspec.json.encode(access) + b"\n")
    return access


def access_keep(installation: Installation) -> Access | None:
    """The recorded access with the present address; None when there is none. `token_works` checks its token
    once the web server answers."""
    known = access_read(installation.home)
    if known is None:
        return None
    access = msgspec.structs.replace(known, url=installation.url)
    write_private(access_path(installation.home), msgspec.json.encode(access) + b"\n")
    return access


def token_works(access: Access) -> bool:
    try:
        Rest(access.url, access.token).get("me/")
    except RestError as error:
        return error.status not in (401, 403)
    return True
