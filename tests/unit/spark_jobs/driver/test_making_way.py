"""A driver that missed that its topology was undeployed does nothing of what is deployed now."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from domain.messages import DeployedSpec, Plan
from spark_jobs.driver.loop import EpochLoop, MakeWayError

LOADED = DeployedSpec(name="t", version=3, computation=2, spec={})
PLAN = Plan(generation=5, kind="recover", deployed=4, assignment={})


def loop(spec: DeployedSpec, plan: Plan) -> Any:
    """A driver that has loaded `LOADED`, and now reads these."""
    return SimpleNamespace(
        coordination=SimpleNamespace(spec=spec, plan=plan), spec=LOADED, deployment=PLAN.deployment
    )


@pytest.mark.parametrize("other", [{"version": 4}, {"computation": 3}])
def test_it_makes_way_for_another_version(other: dict[str, Any]) -> None:
    with pytest.raises(MakeWayError, match="is deployed, and this driver has 3"):
        EpochLoop._require_loaded(loop(msgspec.structs.replace(LOADED, **other), PLAN))


def test_it_makes_way_for_a_later_deployment() -> None:
    later = Plan(generation=6, kind="deploy", deployed=6, assignment={})
    with pytest.raises(MakeWayError, match="plan 6 is of a later deployment"):
        EpochLoop._require_loaded(loop(LOADED, later))


@pytest.mark.parametrize(
    ("other", "plan"),
    [
        ({}, PLAN),
        ({}, msgspec.structs.replace(PLAN, generation=9)),
        ({"desired": "stopped"}, PLAN),
        # The specification was edited, and the driver still takes its last checkpoint.
        ({"desired": "stopped", "version": 4}, PLAN),
    ],
)
def test_it_goes_on_with_what_it_has_loaded(other: dict[str, Any], plan: Plan) -> None:
    EpochLoop._require_loaded(loop(msgspec.structs.replace(LOADED, **other), plan))
