"""What is told where a storage cannot be used, and what is particular to one kind."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import fsspec
import psycopg
import pytest

from harness.stack import free_port
from host import durable
from host.environment import Environment, read
from spark_jobs.agent import __main__ as agent_process
from spark_jobs.agent.membership import NodeIdentity
from spark_jobs.state import redis_storage
from spark_jobs.state.checkpoint_storage import CheckpointStorage
from spark_jobs.state.redis_storage import RedisStorage
from spark_jobs.state.sealed import DamagedError
from spark_jobs.state.state_storage import (
    NotThereError,
    RefusedError,
    UnavailableError,
    UnusableUrlError,
    masked,
)
from spark_jobs.state.storage_urls import open_storage
from spark_jobs.state.store import EMPTY, StateStore
from tests.unit.spark_jobs.state.conformance.backends import Servers, opened, running_redis
from tests.unit.spark_jobs.state.conformance.states import Kept, grown, upload

only_redis = pytest.mark.parametrize("backend", ["redis"], indirect=True)
only_postgresql = pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
only_s3 = pytest.mark.parametrize("backend", ["s3"], indirect=True)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s4://bucket/path", "unknown scheme 's4': write file:///directory, s3://bucket"),
        ("s3://key:hush@bucket/path", "credentials of S3 do not go into the URL; set AWS_ACCESS_KEY_ID"),
        ("redis://:hush@host:6379/zero", "what follows the host is not the number of a database"),
        ("redis://:hush@host:port/0", "is no URL of Redis"),
        ("redis://:pa/hush@host:6379/0", "port is no number; in a password, write @ as %40, / as %2F"),
        ("redis://:12/hush@host:6379/0", "not the number of a database of Redis; in a password, write"),
        ("redis://:hush#hush@host:6379/0", "is no URL of Redis: its port is no number"),
        ("postgresql://resurge:pa/hush@host/db", "port is no number; in a password, write @ as %40"),
        ("postgresql://resurge:p@hush@host/db", "its host has an @; in a password, write @ as %40"),
        ("postgresql://resurge:hush@host", "names no database"),
        ("postgresql://resurge:hush@host:port/db", "is no URL of PostgreSQL"),
        ("postgresql://resurge:hush@host/db?nonsense=1", "is no URL of PostgreSQL.*nonsense"),
    ],
)
def test_an_url_that_cannot_be_used_is_refused(url: str, said: str) -> None:
    with pytest.raises(UnusableUrlError, match=said) as caught:
        open_storage(url)
    assert "hush" not in str(caught.value)


def test_what_has_to_be_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(url: str, **options: Any) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    with pytest.raises(UnusableUrlError, match=r"Install s3fs.*-r requirements/s3\.txt"):
        open_storage("s3://bucket/path")
    with pytest.raises(UnusableUrlError, match="install what fsspec needs for gs"):
        open_storage("gs://bucket/path")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:hush@host:6379/0", "redis://...@host:6379/0"),
        ("postgresql://resurge:hush@host/db?sslmode=require", "postgresql://...@host/db?sslmode=require"),
        ("postgresql://host/db?password=hush&user=resurge", "postgresql://host/db?password=...&user=resurge"),
        ("abfs://container/path?account_key=hush", "abfs://container/path?account_key=..."),
        ("redis://:p@hush@127.0.0.1:1/0", "redis://...@127.0.0.1:1/0"),
        ("redis://:pa/hush@host:6379/0", "redis://...@host:6379/0"),
        ("redis://:pa#hush@host:6379/0", "redis://...@host:6379/0"),
        ("redis://:p@h#hush@host:6379/0", "redis://...@host:6379/0"),
        ("postgresql://u:pa/hush@host/db?a=b@c", "postgresql://...@host/db?a=b@c"),
        ("s3://key:pa/hush@bucket/path", "s3://...@bucket/path"),
        ("is wrong: redis://:p@hush@h/0 b@c", "is wrong: redis://...@h/0 b@c"),
        ("abfs://container@account/a@b", "abfs://...@account/a@b"),
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("s3://bucket/a@b/c", "s3://bucket/a@b/c"),
        ("file:///srv/a@b/c", "file:///srv/a@b/c"),
        ("/srv/a@b:c/d", "/srv/a@b:c/d"),
        ("file:///srv/checkpoints", "file:///srv/checkpoints"),
    ],
)
def test_credentials_are_not_shown(url: str, shown: str) -> None:
    assert masked(url) == shown


def test_the_settings_do_not_show_the_url() -> None:
    settings: Environment = read({"RESURGE_CHECKPOINTS": "redis://:hush@host:6379/0"})
    assert settings.checkpoints == "redis://:hush@host:6379/0"
    assert "hush" not in repr(settings)


@pytest.mark.parametrize("kind", ["redis", "postgresql"])
def test_a_server_that_is_not_there_may_come_back(kind: str) -> None:
    address = f"{kind}://resurge:hush@127.0.0.1:{free_port()}/0"
    with (
        closing(CheckpointStorage(address)) as storage,
        pytest.raises(UnavailableError, match="runs and RESURGE_CHECKPOINTS names it") as caught,
    ):
        storage.delete_topology("hashtags")
    assert "hush" not in str(caught.value)


def test_an_s3_server_that_is_not_there_may_come_back(
    monkeypatch: pytest.MonkeyPatch, servers: Servers, tmp_path: Path
) -> None:
    servers.url("s3", tmp_path)  # with the variables of a server
    filesystem = fsspec.get_filesystem_class("s3")
    monkeypatch.setattr(filesystem, "retries", 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    filesystem.clear_instance_cache()
    with pytest.raises(UnavailableError, match=r"s3://nowhere/path/t.*endpoint"):
        open_storage("s3://nowhere/path").entries("t")
    filesystem.clear_instance_cache()


@only_s3
def test_a_bucket_that_is_not_there_takes_nothing(url: str) -> None:
    with opened("s3://another-bucket/path") as objects, pytest.raises(NotThereError, match="bucket"):
        objects.put({}, {"t/a": b"a"})


@pytest.mark.parametrize("backend", ["file"], indirect=True)
def test_a_directory_that_is_none_is_named(storage: Kept, tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file")
    with pytest.raises(RefusedError, match=f"Not a directory: {tmp_path}/checkpoints"):
        storage.raw.put({}, {"t/a": b"a"})
    (tmp_path / "checkpoints").unlink()
    assert storage.raw.put({}, {"t/a": b"a"}) == set()


@pytest.mark.parametrize("backend", ["file"], indirect=True)
def test_what_is_being_written_is_not_listed(storage: Kept, tmp_path: Path) -> None:
    storage.raw.put({}, {"t/a": b"a"})
    (tmp_path / "checkpoints" / "t" / ".b.123.partial").write_bytes(b"b")
    assert storage.raw.entries("t") == {"a": 1}


@pytest.mark.parametrize("backend", ["file"], indirect=True)
def test_what_a_killed_process_was_writing_is_deleted(
    storage: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.raw.put({}, {"t/a": b"a"})
    left = tmp_path / "checkpoints" / "t" / ".b.123.partial"
    left.write_bytes(b"b")
    storage.raw.tidy("t")
    storage.raw.tidy("u")
    assert left.exists(), "it may be of a process that runs"
    monkeypatch.setattr(durable, "ABANDONED", -1.0)
    storage.raw.tidy("t")
    assert not left.exists()
    assert storage.raw.get("t/a") == b"a"


@pytest.mark.parametrize("place", ["files", "manifests"])
def test_what_an_earlier_upload_could_not_force_is_forced_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    storage = CheckpointStorage(f"file://{tmp_path}/checkpoints")
    store = StateStore(tmp_path / "node")
    manifest = grown(store, EMPTY, 10)
    sync, forced, failing = os.fsync, list[str](), [True]

    def recorded(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if failing[0] and f"/{place}" in path:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        forced.append(path)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    for _ in range(2):
        with pytest.raises(UnavailableError, match=f"/{place}"):
            upload(storage, store, manifest)
    failing[0] = False
    assert upload(storage, store, manifest) == 0, "all is there"
    assert any(f"/{place}/" in path for path in forced)


@pytest.fixture
def chunks_of_redis(url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The keys of chunks below the URL, and how to look at them."""
    monkeypatch.setattr(redis_storage, "CHUNK", 10)
    with opened(url) as storage:
        assert isinstance(storage, RedisStorage)
        yield storage._client, lambda: sorted(storage._client.keys(f"{url.rpartition('/')[2]}:c:*"))


@only_redis
def test_what_a_writer_left_in_redis_expires(url: str, chunks_of_redis: Any) -> None:
    client, chunks = chunks_of_redis
    with opened(url) as objects:
        objects.put({}, {"t/a": b"a" * 25})
        assert [client.ttl(key) for key in chunks()] == [-1, -1, -1], "what has a name stays"
        before = chunks()

        def dies(**arguments: Any) -> None:
            raise KeyboardInterrupt

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(objects, "_name", dies)
            with pytest.raises(KeyboardInterrupt):
                objects.put({}, {"t/b": b"b" * 25})
        assert objects.entries("t") == {"a": 25}
        left = set(chunks()) - set(before)
        assert len(left) == 3
        assert all(0 < client.ttl(key) <= redis_storage.UNNAMED_FOR for key in left)


@only_redis
def test_redis_keeps_no_chunk_that_has_no_name(url: str, chunks_of_redis: Any) -> None:
    _, chunks = chunks_of_redis
    with opened(url) as objects:
        objects.put({}, {"t/a": b"a" * 25, "t/d/b": b"b" * 25})
        assert objects.put({}, {"t/a": b"x" * 25}) == {"t/a"}
        objects.rename("t/a", "c")
        objects.put({}, {"t/a": b"x" * 25})
        objects.rename("t/a", "c")
        assert len(chunks()) == 6
        objects.delete(["t/c"])
        objects.remove_tree("t/d")
        assert chunks() == []


@only_redis
def test_a_script_whose_answer_was_lost_is_sent_again(url: str) -> None:
    """It finds its own name, and keeps what that names."""
    with opened(url) as objects:
        assert isinstance(objects, RedisStorage)
        script, sent = objects._name, list[Any]()

        def twice(args: list[Any]) -> Any:
            sent.append(script(args=args))
            return script(args=args)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(objects, "_name", twice)
            assert objects.put({}, {"t/a": b"a", "t/b": b"b"}) == set()
        assert sent == [[]]
        assert objects.get("t/a") == b"a"


@only_redis
def test_an_object_that_lost_a_chunk_in_redis_is_damaged(
    url: str, chunks_of_redis: Any, tmp_path: Path
) -> None:
    client, chunks = chunks_of_redis
    with opened(url) as objects:
        objects.put({}, {"t/a": b"a" * 25})
        client.delete(chunks()[1])
        with pytest.raises(DamagedError, match=r"t/a is damaged: part 1 of 3 is gone") as caught:
            objects.get("t/a")
        assert caught.value.paths == ("t/a",)
        with pytest.raises(DamagedError, match="part 1 of 3"):
            objects.get_file("t/a", tmp_path / "target")


def test_the_password_of_redis_may_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    with running_redis(tmp_path, port, "--requirepass", "hush", "--maxmemory", "3mb"):
        url = f"redis://127.0.0.1:{port}/0"
        with opened(url) as objects, pytest.raises(RefusedError, match="RESURGE_CHECKPOINTS_PASSWORD"):
            objects.put({}, {"t/a": b"a"})
        monkeypatch.setenv("RESURGE_CHECKPOINTS_PASSWORD", "hush")
        with opened(url) as objects:
            objects.put({}, {"t/a": b"a"})
            assert objects.get("t/a") == b"a"
            with pytest.raises(RefusedError, match="give Redis more memory") as caught:
                objects.put({}, {f"t/{number}": os.urandom(1 << 20) for number in range(10)})
            assert "hush" not in str(caught.value)


@only_postgresql
def test_an_object_that_lost_a_row_is_damaged(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.state.postgresql_storage.CHUNK", 10)
    with opened(url) as objects, psycopg.connect(url, autocommit=True) as connection:
        objects.put({}, {"t/a": b"a" * 25})
        connection.execute("DELETE FROM resurge_checkpoint_chunks WHERE number = 1")
        with pytest.raises(DamagedError, match="t/a is damaged: it has 15 bytes of 25"):
            objects.get("t/a")


@only_postgresql
def test_connections_that_the_server_ended_are_made_anew(url: str) -> None:
    with opened(url) as objects, psycopg.connect(url, autocommit=True) as connection:
        objects.put({}, {"t/a": b"a"})
        connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE application_name = 'resurge checkpoints'"
        )
        assert objects.get("t/a") == b"a"


@only_postgresql
def test_a_user_without_permission_is_refused(url: str) -> None:
    with opened(url) as objects:
        objects.put({}, {"t/a": b"a"})
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE ROLE reader LOGIN")
        connection.execute("GRANT SELECT ON resurge_checkpoint_chunks TO reader")
        try:
            with opened(url.replace("//resurge@", "//reader@")) as objects:
                assert objects.get("t/a") == b"a"
                with pytest.raises(RefusedError, match="change the table resurge_checkpoint_chunks"):
                    objects.put({}, {"t/b": b"b"})
            with (
                opened(url.replace("//resurge@", "//stranger@")) as objects,
                pytest.raises(RefusedError, match="a user and a password that PostgreSQL knows"),
            ):
                objects.get("t/a")
        finally:
            connection.execute("DROP OWNED BY reader")
            connection.execute("DROP ROLE reader")


def test_an_agent_says_why_it_cannot_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def agent(identity: NodeIdentity, settings: Environment) -> None:
        open_storage(settings.checkpoints)

    monkeypatch.setattr(agent_process, "Agent", agent)
    monkeypatch.setattr(agent_process, "lead_session", lambda identity: identity)
    monkeypatch.setattr(agent_process, "home_protect", lambda home, files: None)
    monkeypatch.setattr(sys, "argv", ["agent", "--node", "node-1", "--address", "127.0.1.1", "--rack", "a"])
    monkeypatch.setenv("RESURGE_CHECKPOINTS", "s4://bucket/path")
    assert agent_process.main() == 2
    assert "RESURGE_CHECKPOINTS: s4://bucket/path has the unknown scheme 's4'" in capsys.readouterr().err
