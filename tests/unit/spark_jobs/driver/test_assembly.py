"""The parts of a driver are as the specification says; where it says nothing, as the installation does."""

from __future__ import annotations

import math
from typing import Any

import pytest

from domain.execution.checkpoints import TOLERATED, UPLOAD_TIMEOUT, Checkpoints
from domain.messages import LatestCheckpoint
from domain.topology import Topology
from domain.topology.spec import OperatorSpec, TopologySpec
from host import environment
from spark_jobs.driver.assembly import checkpoints_of

SETTINGS = environment.read({"RESURGE_CHECKPOINT_INTERVAL": "20", "RESURGE_CHECKPOINTS_KEPT": "7"})


def made(**fields: Any) -> Checkpoints:
    operators = (OperatorSpec(name="S", kind="k", output=True),)
    topology = Topology(TopologySpec(name="t", operators=operators, **fields))
    newest = LatestCheckpoint(
        checkpoint=4, generation=1, completed_at=9.0, size_bytes=1, kept=[2, 4], kept_at=[3.0, 9.0], highest=6
    )
    return checkpoints_of(topology, SETTINGS, since=10.0, kept=[2, 4], newest=newest)


def test_a_specification_that_says_nothing() -> None:
    found = made()
    assert (found.interval, found.keep, found.keep_for) == (20.0, 7, math.inf)
    assert (found.pause, found.timeout, found.tolerated) == (0.0, UPLOAD_TIMEOUT, TOLERATED)
    assert (found.at_once, found.synchronous) == (1, False)
    assert (found.latest, found.highest, found.completed) == (4, 6, {2: 3.0, 4: 9.0})


@pytest.mark.parametrize(
    ("field", "value", "name"),
    [
        ("checkpoint_interval", 3.0, "interval"),
        ("checkpoints_kept", 9, "keep"),
        ("checkpoints_kept_for", 60.0, "keep_for"),
        ("checkpoint_pause", 5.0, "pause"),
        ("checkpoints_at_once", 3, "at_once"),
        ("checkpoint_timeout", 300.0, "timeout"),
        ("checkpoint_failures", 0, "tolerated"),
    ],
)
def test_what_it_says_holds(field: str, value: float, name: str) -> None:
    assert getattr(made(**{field: value}), name) == value


def test_synchronous_checkpoints() -> None:
    assert made(checkpoint_mode="synchronous").synchronous
