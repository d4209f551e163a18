"""What is wrong with a value of a specification, in words for its author."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

from domain.value_words import BOUNDS, KINDS

_EXPECTED = re.compile(r"^Expected `([^`]+)`(?: (<=|>=|<|>) (\S+))?")
NAME_LENGTH, TOPOLOGY_NAME_LENGTH = 64, 63
"""The most characters of an operator's and a topology's name."""


def value_problem(message: str, value: Any) -> str:
    """A message of msgspec about `value`: `must be at most 10, not 11`."""
    found = _EXPECTED.match(message)
    if found is None:
        return f"{message[:1].lower()}{message[1:]}"
    kinds, sign, bound = found.groups()
    if sign:
        return f"must be {BOUNDS[sign]} {float(bound):g}, not {value!r:.60}"
    allowed = [KINDS.get(kind, kind) for kind in kinds.split(" | ") if kind != "null"]
    return f"must be {' or '.join(allowed)}, not {value!r:.60}"


def choice_problem(value: Any, choices: Collection[str]) -> str:
    """`value` is none of the words that are possible."""
    return f"{value!r:.60} is none of {', '.join(choices)}{suggestion(value, choices)}"


def name_problem(name: str, *, topology: bool) -> str:
    """What is wrong with a name that does not have the form of names."""
    most = TOPOLOGY_NAME_LENGTH if topology else NAME_LENGTH
    if len(name) > most:
        return f"{len(name)} characters are too many: a name has at most {most}"
    if topology:
        allowed = "a topology's name has small letters, digits and dashes, and starts with a small letter"
    else:
        allowed = "an operator's name has letters, digits and underscores, and starts with a letter"
    return f"{name!r} is not possible: {allowed}"


def suggestion(word: Any, known: Collection[str]) -> str:
    """` (did you mean ...?)` where one of the known words is close, else nothing."""
    if not isinstance(word, str):
        return ""
    plain = {name.lower().replace("-", "_"): name for name in known}
    close = get_close_matches(word.lower().replace("-", "_"), plain, n=1, cutoff=0.6)
    return f"; did you mean {plain[close[0]]}?" if close else ""
