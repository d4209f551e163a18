"""What is sent are numbers that JSON can hold: others are refused where they are written."""

from __future__ import annotations

import math

import click
import pytest

from cli.commands.what_if import arrivals_read
from tests.unit.cli.conftest import Resurge
from tests.unit.cli.test_documentation import COMMANDS

WHY = ("--reason", "a test")
MANY = "9" * 5000


def test_no_parameter_takes_what_is_not_finite() -> None:
    texts = ("nan", "inf", "-inf", "1e999", MANY, f"{MANY}d")
    taken = [
        (*path, parameter.name, text[:10])
        for path, command in COMMANDS.items()
        for parameter in command.params
        for text in texts
        if _takes(parameter, text)
    ]
    assert taken == []


def _takes(parameter: click.Parameter, text: str) -> bool:
    try:
        value = parameter.type.convert(text, parameter, None)
    except click.UsageError:
        return False
    return isinstance(value, float) and not math.isfinite(value)


@pytest.mark.parametrize(
    "command",
    [
        ("policy", "set", "hashtags", "--correlation-window", "nan", *WHY),
        ("policy", "set", "hashtags", "--tentative-worth", "nan", *WHY),
        ("alerts", "create", "a", "lag", "above", "inf", "--for", "1m", *WHY),
        ("alerts", "set", "lag-high", "--threshold", "inf", *WHY),
        ("topologies", "create", "--pipeline", "top-pages", "--speedup", "inf", *WHY),
        ("replicas", "set", "hashtags", "--budget", "nan", *WHY),
        ("webhooks", "rotate-secret", "5", "--overlap-hours", "nan", "--show", *WHY),
        ("tokens", "create", "--show", "--lifetime", "9" * 400 + "d", *WHY),
        ("what-if", "--rack", "rack-a", "--replay-speed", "nan"),
        ("queries", "prioritise", "hashtags", f"O3[0]={MANY}", *WHY),
        ("nodes", "show", "node-\udcff"),
        ("nodes", "drain", "node-1", "--yes", "--reason", "b\udcff"),
    ],
    ids=lambda command: " ".join(command)[:40].encode("ascii", "replace").decode(),
)
def test_what_cannot_be_sent_is_wrong_usage(resurge: Resurge, command: tuple[str, ...]) -> None:
    answer = resurge(*command)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert answer.err.startswith("resurge: ")


def test_times_that_are_not_finite_are_left_to_the_server() -> None:
    assert arrivals_read("30, 60.5") == [30.0, 60.5]
    assert arrivals_read("30,nan") == "30,nan"
