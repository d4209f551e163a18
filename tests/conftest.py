"""How pytest processes work: which tests stay together, and when garbage is collected."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from host.garbage import collect_seldom

TOGETHER = ("tests/browser/", "tests/unit/cli/")
"""Directories whose tests share servers: a second worker would start all of them again."""


def pytest_configure() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    """The million objects of loaded modules and tests stay: collections visit what tests leave, as in the web
    process."""
    gc.freeze()
    collect_seldom()
    gc.enable()


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
