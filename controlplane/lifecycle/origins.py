"""From when event time counts, where a source of a specification does not say it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def origins_begin(spec: dict[str, Any], now: datetime) -> dict[str, Any]:
    """Sources count from the moment of deployment, to the second. It becomes part of the stored
    specification, so every replay computes the same times."""
    origin = now.astimezone(UTC).replace(microsecond=0).isoformat()
    return _origins_set(spec, {one["name"]: origin for one in spec["operators"]})


def origins_keep(spec: dict[str, Any], deployed: dict[str, Any]) -> dict[str, Any]:
    """Sources go on counting from the moment that the deployment fixed."""
    return _origins_set(spec, {one["name"]: _origin(one) for one in deployed["operators"]})


def _origins_set(spec: dict[str, Any], origins: Mapping[str, Any]) -> dict[str, Any]:
    operators = [
        {**one, "params": {**one.get("params", {}), "origin": origins[one["name"]]}}
        if not one.get("inputs") and _origin(one) is None and origins.get(one["name"]) is not None
        else one
        for one in spec["operators"]
    ]
    return {**spec, "operators": operators}


def _origin(operator: Mapping[str, Any]) -> Any:
    return operator.get("params", {}).get("origin")
