"""What the benchmark of detection says of the losses it has seen."""

from __future__ import annotations

from benchmarks.detection import report_of

QUICK = "its agent's connection was closed and refused, and the driver of hashtags lost its executor"


def row(what: str, seconds: float, evidence: str = QUICK) -> dict[str, object]:
    return {"what": what, "node": "node-1", "seconds": seconds, "evidence": evidence}


def test_frozen_nodes_are_reported_beside_the_killed_ones() -> None:
    report = report_of(
        [row("1 of 4", 0.2), row("2 of 4", 0.4), row("freeze", 4.1, "its registration is gone")]
    )
    assert report.results["freeze"] == {"seconds": [4.1], "median": 4.1, "by_two_pieces": 0}
    assert [(one.value, one.holds) for one in report.criteria] == [(0.3, True), (1.0, True)]


def test_one_loss_that_was_found_by_its_silence_fails_the_criterion() -> None:
    report = report_of([row("1 of 4", 0.2), row("1 of 4", 3.1, "its heartbeat has been silent for 3.1 s")])
    assert [one.holds for one in report.criteria] == [False, False]
