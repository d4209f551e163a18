"""What is wrong with a decoded value, in plain words instead of those of the library that found it. Pure."""

from __future__ import annotations

import re

KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "nothing",
}
BOUNDS = {"<=": "at most", ">=": "at least", "<": "less than", ">": "more than"}
_AT = re.compile(r" - at `(?:key in )?\$?\.?([^`]*)`$")
_BOUND = re.compile(r"^Expected `([^`]+)` (<=|>=|<|>) (\S+)$")
_KIND = re.compile(r"^Expected `([^`]+)`, got `([^`]+)`$")
_MISSING = re.compile(r"^Object missing required field `([^`]+)`$")
_UNKNOWN = re.compile(r"^Object contains unknown field `([^`]+)`$")


def plain_message(message: str) -> str:
    """`again_in must be at least 1`, for msgspec's "Expected `float` >= 1 - at `$.again_in`"; a message of
    another form is left as it is."""
    found = _AT.search(message)
    where, text = (found[1] or "it" if found else "it"), _AT.sub("", message)
    if bound := _BOUND.match(text):
        return f"{where} must be {BOUNDS[bound[2]]} {float(bound[3]):g}"
    if kind := _KIND.match(text):
        return f"{where} must be {_either(kind[1])}, not {_either(kind[2])}"
    if missing := _MISSING.match(text):
        return f"{where} has no {missing[1]}"
    if unknown := _UNKNOWN.match(text):
        return f"{where} has a field that is not known: {unknown[1]}"
    return message


def _either(kinds: str) -> str:
    return " or ".join(KINDS.get(kind, kind) for kind in kinds.split(" | "))
