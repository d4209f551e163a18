"""Which implementation of `StateStorage` a URL names."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import fsspec
from fsspec.implementations.local import LocalFileSystem

from host.environment import checkpoints_password
from spark_jobs.state.directory_storage import DirectoryStorage
from spark_jobs.state.fsspec_storage import FsspecStorage
from spark_jobs.state.state_storage import StateStorage, UnusableUrlError, masked

REDIS = frozenset({"redis", "rediss", "unix"})
POSTGRESQL = frozenset({"postgres", "postgresql"})
ROOT = "resurge-checkpoints"
"""What the names of keys in Redis begin with, where the URL does not say."""
_S3 = frozenset({"s3", "s3a"})
_INSTALL_S3 = "install what S3 needs: pip install --require-hashes -r requirements/s3.txt"
_ENCODE = "in a password, write @ as %40, / as %2F, ? as %3F and # as %23"
_WRITE = (
    "write file:///directory, s3://bucket/directory, redis://host:6379/0, postgresql://user@host/database, "
    "or another URL that fsspec opens"
)


def open_storage(url: str, *, force: bool = True) -> StateStorage:
    """Nothing is connected to before it is used. force: False leaves it to the operating system when what is
    stored in a directory reaches the disk; servers are configured themselves. Raises `UnusableUrlError`."""
    scheme = url.partition("://")[0].partition("::")[0].lower() if "://" in url else "file"
    if scheme in REDIS:
        return _redis(url)
    if scheme in POSTGRESQL:
        return _postgresql(url)
    return _fsspec(url, scheme, force)


def _redis(url: str) -> StateStorage:
    from spark_jobs.state.redis_storage import RedisStorage, redis_client

    _require_port(url, "Redis")
    parts = urlsplit(url)
    root = ""
    if parts.scheme != "unix":
        # redis://host:6379/0/some/name: the number of the database, then what keys begin with.
        number, _, root = parts.path.strip("/").partition("/")
        if number and not number.isdigit():
            what = "what follows the host is not the number of a database of Redis"
            raise UnusableUrlError(f"{masked(url)}: {what}; {_ENCODE}")
        url = parts._replace(path=f"/{number}", fragment="").geturl()
    try:
        client = redis_client(url, "" if parts.password else checkpoints_password())
    except (ValueError, TypeError) as error:
        raise UnusableUrlError(f"{masked(url)} is no URL of Redis: {masked(str(error))}") from None
    return RedisStorage(client, root or ROOT, masked(url))


def _postgresql(url: str) -> StateStorage:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    from spark_jobs.state.postgresql_storage import PostgresqlStorage

    try:
        said = conninfo_to_dict(url)
    except psycopg.Error as error:
        secret = urlsplit(url).password or ""
        words = str(error).strip().replace(secret, "...") if secret else str(error).strip()
        raise UnusableUrlError(f"{masked(url)} is no URL of PostgreSQL: {masked(words)}") from None
    _require_port(url, "PostgreSQL")
    if str(said.get("host", "")).rfind("@") > 0:
        raise UnusableUrlError(f"{masked(url)} is no URL of PostgreSQL: its host has an @; {_ENCODE}")
    if not said.get("dbname"):
        raise UnusableUrlError(f"{masked(url)} names no database: write postgresql://user@host/database")
    password = checkpoints_password()
    if password and not said.get("password"):
        said["password"] = password
    return PostgresqlStorage(make_conninfo("", **said), masked(url))


def _require_port(url: str, kind: str) -> None:
    """Where it is not a number, it may be the beginning of a password, which the libraries would show."""
    try:
        _ = urlsplit(url).port
    except ValueError:
        raise UnusableUrlError(
            f"{masked(url)} is no URL of {kind}: its port is no number; {_ENCODE}"
        ) from None


def _fsspec(url: str, scheme: str, force: bool) -> StateStorage:
    if scheme in _S3 and "@" in unquote(urlsplit(url).netloc):
        raise UnusableUrlError(
            f"{masked(url)}: credentials of S3 do not go into the URL; set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, and AWS_ENDPOINT_URL for a server that is not Amazon's"
        )
    # Lists are asked for each time: other processes write, too.
    further = {"use_listings_cache": False} if scheme in _S3 else {}
    try:
        filesystem, root = fsspec.core.url_to_fs(url, **further)
    except ImportError as error:
        hint = _INSTALL_S3 if scheme in _S3 else f"install what fsspec needs for {scheme}"
        raise UnusableUrlError(f"{masked(url)}: {error}; {hint}") from error
    except ValueError as error:
        if scheme not in fsspec.available_protocols():
            raise UnusableUrlError(f"{masked(url)} has the unknown scheme {scheme!r}: {_WRITE}") from None
        raise UnusableUrlError(f"{masked(url)}: {masked(str(error))}; {_WRITE}") from None
    if isinstance(filesystem, LocalFileSystem):
        return DirectoryStorage(str(root).rstrip("/"), force=force)
    return FsspecStorage(filesystem, str(root), masked(url))
