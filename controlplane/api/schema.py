"""What the OpenAPI schema says about every operation alike."""

from __future__ import annotations

from typing import Any

METHODS = ("get", "post", "put", "patch", "delete")
REFUSED = {
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Errors"}}},
    "description": "Refused: the errors say what is wrong and where.",
}


def refusals_document(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Give every operation the one shape of refusals as its default answer."""
    for path in result["paths"].values():
        for method in METHODS:
            if method in path:
                path[method]["responses"].setdefault("default", REFUSED)
    return result
