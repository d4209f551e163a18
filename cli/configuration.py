"""Which server, with which token: options, environment, configuration file, or this checkout's own server.

A token is sent only to its own server: a token that is stored with one address is not used for another.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cli.failures import ConfigurationError

FIELDS = ("url", "token")
CHECKOUT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Target:
    """The server at `url` (without a slash at the end). `token` may be empty; it is never shown."""

    url: str
    token: str
    source: str

    def __repr__(self) -> str:
        return f"Target({self.url!r}, from {self.source})"


def config_path(variables: Mapping[str, str] | None = None) -> Path:
    """`RESURGE_CONFIG`, or `resurge/config.json` in the user's configuration directory."""
    env = os.environ if variables is None else variables
    if env.get("RESURGE_CONFIG"):
        return Path(env["RESURGE_CONFIG"]).expanduser()
    base = env.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base else Path.home() / ".config") / "resurge" / "config.json"


def target_find(url: str = "", variables: Mapping[str, str] | None = None) -> Target:
    """The server to talk to; `url` comes before everything else.

    Raises `ConfigurationError` where nothing names a server or a file cannot be used.
    """
    env = os.environ if variables is None else variables
    named = env.get("RESURGE_URL", "").strip()
    given = env.get("RESURGE_TOKEN", "").strip()
    address = url_check(url or named) if url or named else ""
    if address and given and (not named or url_check(named) == address):
        return Target(address, token_check(given), "the environment")
    stored = _read(config_path(env))
    if address:
        known = (one for one in (stored, _read_access(env)) if one is not None and one.url == address)
        return next(known, Target(address, "", "the environment"))
    stored = stored or _read_access(env)
    if stored is None:
        raise ConfigurationError(
            "no server is configured: run `resurge login <url>`, or set RESURGE_URL and RESURGE_TOKEN"
        )
    # RESURGE_TOKEN alone belongs to the configured server.
    return Target(stored.url, token_check(given), "the environment") if given else stored


def target_save(path: Path, target: Target) -> None:
    """Write the file with rights for its owner only, in one step. Raises `ConfigurationError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # A file made this way can be read by its owner only, from the first byte on.
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".config-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"url": target.url, "token": target.token}, file)
                file.write("\n")
            os.replace(name, path)
        except OSError:
            with suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be written ({error.strerror}): name another file in RESURGE_CONFIG"
        ) from error


def url_check(text: str) -> str:
    """A server's address in its usual form. Raises `ConfigurationError`."""
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError as error:
        raise ConfigurationError(f"{text!r} is not an address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"{text!r} is not an address: write http://host:port or https://host")
    if parts.username or parts.password:
        raise ConfigurationError("the address holds a user or a password: sign in with a token instead")
    if parts.query or parts.fragment:
        raise ConfigurationError(f"{text!r} is not a server's address: leave out the query and the fragment")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    usual = {"http": 80, "https": 443}[parts.scheme]
    address = f"{parts.scheme}://{host}" + (f":{port}" if port not in (None, usual) else "")
    return address + parts.path.rstrip("/")


def token_check(text: str) -> str:
    """A token as it may stand in a header. Raises `ConfigurationError`; its text is not repeated."""
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError("the token is empty or holds characters that no token has: copy it again")
    return token


def travels_openly(url: str) -> bool:
    """Whether a token would cross a network unencrypted."""
    return urlsplit(url).scheme == "http" and not on_this_host(url)


def on_this_host(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read(path: Path) -> Target | None:
    """The configuration file; None when there is none. Raises `ConfigurationError`."""
    found = _load(path)
    if found is None:
        return None
    unknown = sorted(set(found) - set(FIELDS))
    if unknown or not isinstance(found.get("url"), str) or not isinstance(found.get("token", ""), str):
        what = f"has a field {unknown[0]!r}" if unknown else "does not name a url and a token as texts"
        raise ConfigurationError(f"{path} {what}: correct it, or write it again with `resurge login <url>`")
    token = found.get("token", "")
    return Target(url_check(found["url"]), token_check(token) if token else "", str(path))


def _read_access(env: Mapping[str, str]) -> Target | None:
    """What `make up` wrote for the server of this checkout, if there is one."""
    home = env.get("RESURGE_HOME", "")
    path = (Path(home).expanduser() if home else CHECKOUT / "var") / "run" / "access.json"
    found = _load(path)
    if found is None or not isinstance(found.get("url"), str) or not isinstance(found.get("token"), str):
        return None
    return Target(url_check(found["url"]), token_check(found["token"]), str(path))


def _load(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise ConfigurationError(
                    f"{path} holds a token and others may read it: run `chmod 600 {path}`"
                )
            content = json.load(file)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read ({error.strerror}): check its rights") from error
    except ValueError as error:
        raise ConfigurationError(
            f"{path} is not JSON ({error}): correct it, or write it again with `resurge login <url>`"
        ) from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path} is not an object: write it again with `resurge login <url>`")
    return content
