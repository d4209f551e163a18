"""When an incident will be over, in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cli.estimates import over_words

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def incident(expected: float, low: float, high: float) -> dict[str, object]:
    moments = {"expected_at": expected, "low_at": low, "high_at": high}
    texts = {name: (NOW + timedelta(seconds=seconds)).isoformat() for name, seconds in moments.items()}
    return {"forecast": {"held": "", "over": {"stage": "replay", **texts}}}


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ((40, 25, 70), "about 40 s (25 s to 1 min 10 s)"),
        ((3.2, -1, 30), "about 3 s (within 30 s)"),
        ((-5, -9, 30), "any moment (within 30 s)"),
        ((-50, -90, -3), "longer than expected"),
    ],
)
def test_words(times: tuple[float, float, float], words: str) -> None:
    assert over_words(incident(*times), NOW) == words


def test_without_an_estimate() -> None:
    assert over_words({"forecast": {"held": "a plan waits for approval", "over": None}}, NOW) == (
        "no estimate: a plan waits for approval"
    )
    assert over_words({"forecast": {"course": []}}, NOW) == ""
