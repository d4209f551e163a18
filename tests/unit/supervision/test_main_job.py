"""What a start does about the main job, from what the last one did."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervision.main_job import Deployed, Source, Step, deployed_keep, deployed_read, step_of

SAMPLE = Source(pipeline="hashtags")
TWEETS = Source(pipeline="hashtags", input="tweets.parquet", rate="1000")


def step(
    status: str,
    wanted: Source = SAMPLE,
    last: Source | None = SAMPLE,
    *,
    settled: bool = True,
    profile: bool = False,
) -> Step:
    known = Deployed(source=last, settled=settled) if last is not None else None
    return step_of(status=status, wanted=wanted, last=known, profile_changes=profile)


@pytest.mark.parametrize("status", ["absent", "draft"])
def test_what_never_ran_is_deployed(status: str) -> None:
    assert step(status, last=None) is Step.DEPLOY
    assert step(status, TWEETS, TWEETS) is Step.DEPLOY


@pytest.mark.parametrize("status", ["running", "degraded", "recovering", "deploying", "paused", "stopping"])
def test_what_is_to_run_goes_on(status: str) -> None:
    assert step(status) is Step.GO_ON
    assert step(status, TWEETS, TWEETS) is Step.GO_ON, "the same command once more"
    assert step(status, SAMPLE, TWEETS) is Step.GO_ON, "a command that names nothing"
    assert step(status, last=None) is Step.GO_ON, "a home of an earlier version"


@pytest.mark.parametrize("status", ["stopped", "completed", "failed"])
def test_what_has_ended_is_left_alone(status: str) -> None:
    assert step(status) is Step.LEAVE
    assert step(status, TWEETS, TWEETS) is Step.LEAVE


@pytest.mark.parametrize("status", ["running", "stopped", "completed", "failed"])
def test_another_source_or_profile_is_a_new_deployment(status: str) -> None:
    faster = Source(pipeline="hashtags", input="tweets.parquet", rate="2000")
    assert step(status, faster, TWEETS) is Step.DEPLOY_ANEW
    assert step(status, TWEETS, SAMPLE) is Step.DEPLOY_ANEW
    assert step(status, TWEETS, None) is Step.DEPLOY_ANEW
    assert step(status, profile=True) is Step.DEPLOY_ANEW


def test_a_deployment_that_was_interrupted_is_made_good() -> None:
    assert step("stopped", TWEETS, TWEETS, settled=False) is Step.DEPLOY_ANEW


def test_the_note_is_read_again(tmp_path: Path) -> None:
    assert deployed_read(tmp_path) is None
    deployed_keep(tmp_path, TWEETS, settled=False)
    assert deployed_read(tmp_path) == Deployed(source=TWEETS, settled=False)
    (tmp_path / "run" / "main-job.json").write_text("{")
    assert deployed_read(tmp_path) is None
