"""Every address the server answers, enumerated from its URL resolver."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

REST = "api/v1/"
ADMIN = "admin/"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True, slots=True)
class Address:
    """`route` has `{name}` where the address varies; `methods` are those that it has a handler for."""

    route: str
    methods: frozenset[str]

    def path(self, values: dict[str, str]) -> str:
        return "/" + re.sub(r"{(\w+)}", lambda found: values[found[1]], self.route)


def addresses() -> list[Address]:
    found: dict[str, frozenset[str]] = {}
    for route, callback in _walk(get_resolver().url_patterns, ""):
        found[route] = found.get(route, frozenset()) | _methods(callback)
    return [Address(route, methods) for route, methods in sorted(found.items())]


def _walk(patterns: list[URLPattern | URLResolver], before: str) -> Iterator[tuple[str, Any]]:
    for pattern in patterns:
        route = before + _readable(str(pattern.pattern))
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern.url_patterns, route)
        else:
            yield route, pattern.callback


def _readable(pattern: str) -> str:
    """`^nodes/(?P<name>[^/]+)/$` and `nodes/<str:name>/` are both `nodes/{name}/`."""
    text = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", pattern) if "(?P<" not in pattern else pattern
    while "(?P<" in text:
        start = text.index("(?P<")
        depth, end = 0, start
        for end in range(start, len(text)):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            if depth == 0:
                break
        name = text[start + 4 : text.index(">", start)]
        text = f"{text[:start]}{{{name}}}{text[end + 1 :]}"
    return text.removeprefix("^").removesuffix("$").removesuffix("\\Z").replace("[\\s\\S]*", "{anything}")


def _methods(callback: Any) -> frozenset[str]:
    actions = getattr(callback, "actions", None)  # a viewset
    if actions:
        return frozenset(method.upper() for method in actions)
    view = getattr(callback, "cls", None) or getattr(callback, "view_class", None)
    if view is not None:
        return frozenset(method for method in METHODS if hasattr(view, method.lower()))
    return frozenset(METHODS)
