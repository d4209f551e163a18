"""The graph of a topology as clients draw it."""

from __future__ import annotations

from typing import Any


def topology_graph(spec: dict[str, Any]) -> dict[str, Any]:
    """Operators in topological order with their inputs, for drawing.

    Reads stored specifications, which were validated when they were accepted.
    """
    operators: dict[str, Any] = {operator["name"]: operator for operator in spec.get("operators", ())}
    levels: dict[str, int] = {}

    def level(name: str) -> int:
        if name not in levels:
            sources = [
                stream["from"]
                for stream in operators[name].get("inputs", ())
                if not stream.get("feedback", False)
            ]
            levels[name] = 1 + max((level(source) for source in sources), default=-1)
        return levels[name]

    drawn = [
        {
            "name": name,
            "kind": operator["kind"],
            "description": operator.get("description", ""),
            "parallelism": operator.get("parallelism", 1),
            "priority": operator.get("priority", 1),
            "output": operator.get("output", False),
            "correlated": operator.get("correlated", False),
            "deterministic": operator.get("deterministic", True),
            "level": level(name),
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
