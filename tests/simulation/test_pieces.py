"""Where room is in pieces, what runs makes room for what is down, and every incident ends."""

from __future__ import annotations

from collections import Counter

from tests.simulation.pieces_world import ExactPieces, run_pieces

SEEDS = (2, 11, 50, 57, 201, 1400075)
"""In few schedules a move makes room, as in the first five. 1400075: room was made by moves of a topology of
which something was still to leave a drained node."""


def test_what_runs_makes_room_and_a_wave_follows() -> None:
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        counts.update(run_pieces(seed).counts)
    assert counts["rooms made by moves"] >= 5, counts
    assert counts["waves into rooms made"] == counts["rooms made by moves"], counts


def test_what_makes_room_loses_and_repeats_nothing() -> None:
    """The moves are made while partitions are down, and the wave replays what these have missed."""
    counts = run_pieces(11, kind=ExactPieces).counts
    assert counts["waves into rooms made"] == 1, counts
    assert counts["epochs verified"] > 100, counts
