"""How pytest processes work: which tests stay together, which examples are drawn, when garbage goes."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import settings

from host.garbage import collect_seldom
from tests.examples import ALL, DRAWN
from workers.quarantine import quarantine

TOGETHER = ("tests/browser/", "tests/unit/cli/", "tests/unit/spark_jobs/state/conformance/")
"""Directories whose tests share servers: a second worker would start all of them again."""


# The same examples in every run: one that failed fails again. RESURGE_TEST_EXAMPLES=new draws others.
settings.register_profile("same", derandomize=True, database=None, deadline=None)
settings.register_profile("new", derandomize=False, deadline=None)
settings.load_profile(DRAWN)


def pytest_configure() -> None:
    gc.disable()
    # The default draws tracebacks with the values of all variables: two thirds of the time of simulations.
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["level", "event"]),
        ]
    )


def pytest_collection_finish() -> None:
    """The million objects of loaded modules and tests stay: collections visit what tests leave, as in the web
    process."""
    gc.freeze()
    collect_seldom()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if DRAWN == ALL:
        return
    long = [item for item in items if item.get_closest_marker("long")]
    if long and len(long) < len(items):  # a long test that is named alone runs
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


@pytest.fixture(autouse=True)
def same_priority() -> Iterator[None]:
    """What lowers the priority of its process would do so to all tests after it."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    yield
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


@pytest.fixture(autouse=True)
def values_refused_in_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that another test left would be recorded by what calls `tell`, which may have no database."""
    monkeypatch.setattr(quarantine, "_waiting", Counter())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Whole files, as with `--dist loadfile`, and some directories as if they were one file."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return next((one for one in TOGETHER if nodeid.startswith(one)), super()._split_scope(nodeid))

    return Scheduling(config, log)
