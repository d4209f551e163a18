"""What is said of rules and values, and which silence covers what."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from domain.alerting import METRICS, Rule, Silence, Unit, alert_words, rule_words, silence_of, value_words

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("unit", "value", "words"),
    [
        ("times", 2.4, "2.40×"),
        ("seconds", 35.2, "35 s"),
        ("seconds", 0.253, "0.253 s"),
        ("seconds", 12_000.0, "12,000 s"),
        ("share", 0.85, "85 %"),
        ("share", 0.9999, "99.9 %"),
        ("share", 0.0001, "0.1 %"),
        ("share", 1.0, "100 %"),
        ("share", 0.0, "0 %"),
        ("intervals", 3.0, "3 intervals"),
        ("seconds", None, "no data"),
    ],
)
def test_values_have_their_unit_and_say_neither_all_nor_nothing_of_less(
    unit: Unit, value: float | None, words: str
) -> None:
    assert value_words(unit, value) == words


def test_a_rule_is_one_sentence() -> None:
    rule = Rule(
        metric="availability",
        comparison="below",
        threshold=1.0,
        held=timedelta(minutes=2),
        calm=timedelta(0),
    )
    assert rule_words(rule) == "Share of queries available below 100 % for 120 s"


def test_an_alert_is_one_sentence_with_its_value_beside_the_threshold() -> None:
    said = alert_words("query_latency", "clicks/O9[0]", 3.21, "above", 2.0)
    assert said == "Latency of clicks/O9[0]: 3.21 s, above 2 s"
    assert alert_words("lag", "clicks", None, "above", 30.0) == "Lag of clicks: no data"


def silence(key: int, *, rule: str | None = None, topology: str | None = None, minutes: int = 5) -> Silence:
    return Silence(key=key, rule=rule, topology=topology, until=NOW + timedelta(minutes=minutes))


def test_a_silence_covers_what_matches_both_of_its_parts_until_it_ends() -> None:
    of_rule, of_topology, of_both = (
        silence(1, rule="r"),
        silence(2, topology="a"),
        silence(3, rule="r", topology="a"),
    )

    def covering(rule: str, topology: str, at: datetime = NOW) -> list[int]:
        return [
            one.key
            for one in (of_rule, of_topology, of_both)
            if one.covers(rule=rule, topology=topology, at=at)
        ]

    assert covering("r", "a") == [1, 2, 3]
    assert covering("r", "b") == [1]
    assert covering("s", "a") == [2]
    assert covering("s", "b") == []
    assert covering("r", "a", NOW + timedelta(minutes=5)) == []
    ended = Silence(key=4, rule=None, topology="a", until=NOW + timedelta(days=1), ended=True)
    assert silence_of([ended], rule="r", topology="a", at=NOW) is None
    longest = silence(5, topology="a", minutes=50)
    assert silence_of([of_both, longest, ended], rule="r", topology="a", at=NOW) == 5


def test_metrics_have_names_of_series_that_prometheus_accepts() -> None:
    assert all(metric.series.startswith("resurge_") for metric in METRICS.values())
    assert len({metric.series for metric in METRICS.values()}) == len(METRICS)
