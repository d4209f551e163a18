from __future__ import annotations

import pytest

from harness.eventually import eventually


def test_it_returns_what_the_condition_gave() -> None:
    answers = iter([0, "", ["it"]])
    assert eventually(lambda: next(answers), pause=0.001) == ["it"]


def test_expected_errors_are_not_yet_and_others_end_the_wait() -> None:
    answers = iter([{}, {"key": 1}])
    assert eventually(lambda: next(answers)["key"], not_yet=(KeyError,), pause=0.001) == 1
    with pytest.raises(KeyError):
        eventually(lambda: dict[str, int]()["key"])


def test_a_wait_in_vain_says_what_for_and_what_was_last() -> None:
    with pytest.raises(AssertionError, match=r"redis: not within 0\.02 s \(last: 0\)\nthe story"):
        eventually(lambda: 0, "redis", 0.02, pause=0.005, story=lambda: "the story")
