"""One installation that runs the main job on real tweets, for all files of this directory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.stack import Stack, pipeline_with
from tests.data import shared_data
from tests.integration.main_job.course import FIELDS, RATE, advanced, healthy


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """It lives through all tests, one failure after the other, as installations do."""
    directory = tmp_path_factory.mktemp("stack")
    pipeline, tweets = pipeline_with(directory, "hashtags", FIELDS), shared_data("tweets.parquet")
    with Stack(directory, pipeline=str(pipeline), input=tweets, rate=str(RATE)) as made:
        made.manual()
        healthy(made)
        advanced(made, 10)  # so that every query has rows, also where a test runs alone
        yield made
