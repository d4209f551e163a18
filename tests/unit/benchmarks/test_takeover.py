"""A takeover is one of the node that was killed just now."""

from __future__ import annotations

import pytest

from benchmarks.takeover import acts_elsewhere


@pytest.mark.parametrize(
    ("acting", "taken_over"),
    [
        ({}, False),
        ({"A[0]": "node-2"}, False),
        ({"A[0]": "node-2", "B[0]": "node-1"}, False),
        ({"A[0]": "node-2", "B[0]": "node-3"}, True),
    ],
)
def test_what_acts_since_an_earlier_kill_does_not_count(acting: dict[str, str], taken_over: bool) -> None:
    assert acts_elsewhere(acting, {"A[0]", "B[0]"}, "node-1") is taken_over
