"""Every kind of storage that checkpoints may be kept in, with a server where it needs one, which starts for
the first test that asks for it."""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

import boto3
import fsspec
import pytest
import redis
from botocore.config import Config
from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from redis.backoff import NoBackoff
from redis.retry import Retry
from werkzeug.serving import make_server

from harness.eventually import eventually
from harness.stack import free_port
from spark_jobs.state.state_storage import StateStorage
from spark_jobs.state.storage_urls import open_storage
from supervision.redis_server import redis_executable
from tests.integration.control_plane import postgresql

KINDS = ("file", "memory", "s3", "redis", "postgresql")
BUCKET = "checkpoints"


class Servers:
    """Of a test session; ended with it."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory = directory
        self._stack = stack
        self._started: dict[str, str] = {}

    def url(self, kind: str, directory: Path) -> str:
        """Of a place in which nothing is stored. directory: of the test. It is skipped without PostgreSQL."""
        name = uuid4().hex
        match kind:
            case "file":
                return f"file://{directory}/checkpoints"
            case "memory":
                return f"memory://{name}"
            case "s3":
                return f"{self._server(kind)}/{name}"
            case "redis":
                return f"{self._server(kind)}/0/{name}"
            case _:
                return self._server(kind)

    def emptied(self, storage: StateStorage) -> None:
        """A database is the same for all tests."""
        for name in storage.entries(""):
            storage.remove_tree(name)

    def _server(self, kind: str) -> str:
        if kind not in self._started:
            start = {"s3": s3_server, "redis": redis_server, "postgresql": postgresql_server}[kind]
            self._started[kind] = self._stack.enter_context(start(self._directory))
        return self._started[kind]


@contextmanager
def s3_server(directory: Path) -> Iterator[str]:
    """Speaks the protocol over HTTP, as any other. Its address goes where operators put it."""
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    # Only what S3 does: to find out which service is meant takes longer than to serve it.
    server = make_server(
        "127.0.0.1", 0, create_backend_app("s3"), threaded=True, request_handler=MotoRequestHandler
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in s3_variables(f"http://127.0.0.1:{server.server_port}").items():
            patch.setenv(variable, value)
        boto3.client("s3", config=Config(s3={"addressing_style": "path"})).create_bucket(Bucket=BUCKET)
        try:
            yield f"s3://{BUCKET}"
        finally:
            fsspec.get_filesystem_class("s3").clear_instance_cache()
            server.shutdown()
            thread.join(30)
            server.server_close()


def s3_variables(address: str) -> Mapping[str, str]:
    return {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "hush",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@contextmanager
def redis_server(directory: Path) -> Iterator[str]:
    """Without a file; it asks for no password."""
    port = free_port()
    with running_redis(directory, port):
        yield f"redis://127.0.0.1:{port}"


@contextmanager
def running_redis(directory: Path, port: int, *options: str) -> Iterator[redis.Redis]:
    command = [str(redis_executable()), "--bind", "127.0.0.1", "--port", str(port), "--save", "", *options]
    process = subprocess.Popen([*command, "--dir", str(directory)], stdout=subprocess.DEVNULL)
    client: redis.Redis = redis.Redis(port=port, retry=Retry(NoBackoff(), 0))
    try:
        answers = (redis.AuthenticationError,)
        eventually(lambda: _answers(client, answers), "redis", not_yet=(redis.ConnectionError,))
        yield client
    finally:
        client.close()
        process.terminate()
        process.wait(30)


def _answers(client: redis.Redis, asks: tuple[type[Exception], ...]) -> bool:
    try:
        client.ping()
    except asks:
        return True
    return True


@contextmanager
def postgresql_server(directory: Path) -> Iterator[str]:
    if postgresql.programs() is None:
        pytest.skip("PostgreSQL is not installed")
    with postgresql.server() as server:
        yield server.url("postgres")


@contextmanager
def opened(url: str) -> Iterator[StateStorage]:
    storage = open_storage(url, force=False)
    try:
        yield storage
    finally:
        storage.close()
