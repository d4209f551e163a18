"""Each test runs once for every kind of storage. All of them run in one process, which shares the servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from spark_jobs.state.state_storage import StateStorage
from tests.unit.spark_jobs.state.conformance.backends import KINDS, Servers, opened
from tests.unit.spark_jobs.state.conformance.states import Kept


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(tmp_path_factory.mktemp("servers"), stack)


@pytest.fixture(params=KINDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(backend: str, servers: Servers, tmp_path: Path) -> Iterator[str]:
    url = servers.url(backend, tmp_path)
    yield url
    with opened(url) as storage:
        servers.emptied(storage)


@pytest.fixture
def objects(url: str) -> Iterator[StateStorage]:
    with opened(url) as storage:
        yield storage


@pytest.fixture
def storage(url: str) -> Iterator[Kept]:
    with closing(Kept(url)) as storage:
        yield storage
