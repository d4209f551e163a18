"""The graph of a topology as clients draw it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from domain.topology.graph import levels_of
from domain.topology.spec import KeySavingSpec


@lru_cache(maxsize=256)
def specification_drawn(spec: str) -> dict[str, Any]:
    """`specification_fields` of a specification in JSON, the graph as JSON: thousands of operators are drawn
    once per version."""
    fields = specification_fields(msgspec.json.decode(spec))
    return {**fields, "graph": msgspec.Raw(msgspec.json.encode(fields["graph"]))}


def specification_fields(spec: dict[str, Any]) -> dict[str, Any]:
    """What pages show of a specification without asking for it. checkpoint_interval: its own, in seconds;
    None where that of the installation holds."""
    return {
        "graph": topology_graph(spec),
        "description": spec.get("description", ""),
        "checkpoint_interval": spec.get("checkpoint_interval"),
    }


def _repeatable(operator: dict[str, Any]) -> bool:
    said = operator.get("deterministic")
    return not operator.get("doubt") if said is None else bool(said)


def _determinism(operator: dict[str, Any]) -> str:
    """What is known of it, in a sentence; nothing where it is known to be deterministic."""
    said, doubt = operator.get("deterministic"), operator.get("doubt", "")
    if said is False:
        return "Its author says that it is not deterministic."
    if not doubt:
        return ""
    if said:
        return f"Its author says that it is deterministic. This is not checked: {doubt}."
    return f"Taken for not deterministic: {doubt}. Say `deterministic: true` if it is."


def _every(spec: dict[str, Any], operator: dict[str, Any]) -> str:
    """How often the state of a key of the operator is stored; nothing where the guarantee is exact."""
    if spec.get("guarantee") != "bounded":
        return ""
    return str(operator.get("every") or spec.get("key_saving", {}).get("every") or KeySavingSpec().every)


def topology_graph(spec: dict[str, Any]) -> dict[str, Any]:
    """Operators in topological order with their inputs, for drawing.

    Reads stored specifications, which were validated when they were accepted.
    """
    operators: dict[str, Any] = {operator["name"]: operator for operator in spec.get("operators", ())}
    levels = levels_of(
        {
            name: [
                stream["from"] for stream in operator.get("inputs", ()) if not stream.get("feedback", False)
            ]
            for name, operator in operators.items()
        }
    )
    drawn = [
        {
            "name": name,
            "kind": operator["kind"],
            "description": operator.get("description", ""),
            "parallelism": operator.get("parallelism", 1),
            "priority": operator.get("priority", 1),
            "output": operator.get("output", False),
            "correlated": operator.get("correlated", False),
            "deterministic": _repeatable(operator),
            "determinism": _determinism(operator),
            "every": _every(spec, operator),
            "level": levels[name],
            "inputs": [
                {
                    "from": stream["from"],
                    "partitioning": stream.get("partitioning", "full"),
                    "feedback": stream.get("feedback", False),
                }
                for stream in operator.get("inputs", ())
            ],
        }
        for name, operator in operators.items()
    ]
    return {"operators": sorted(drawn, key=lambda operator: operator["level"])}
