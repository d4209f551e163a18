"""What the OpenAPI document says about every operation alike: all the ways in which it may be refused."""

from __future__ import annotations

from typing import Any

METHODS = ("get", "post", "put", "patch", "delete")
ERRORS = {"application/json": {"schema": {"$ref": "#/components/schemas/Errors"}}}
RETRY_AFTER = {"schema": {"type": "integer"}, "description": "seconds"}
REFUSALS = {
    "400": "The request is not valid; the errors say what and where.",
    "401": "The token or session is missing, unknown or expired.",
    "403": "The role does not permit it.",
    "404": "It does not exist.",
    "406": "None of the media types in Accept can be given.",
    "409": "The present state does not permit it; the error says which it is and what to do.",
    "412": "It is not what If-Match names any more; its present ETag is in the header.",
    "413": "The body is too long.",
    "415": "This media type is not accepted here.",
    "428": "If-Match is needed.",
    "429": "Too many requests; the answer says when to try again.",
    "503": "Server busy, or database away; nothing was changed. The answer says when to try again.",
}
ALWAYS = ("401", "403", "406", "429", "503")


def refusals_document(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Name every status that an operation may answer, each with the one shape of refusals."""
    for path, operations in result["paths"].items():
        for method in METHODS:
            if method in operations:
                _refusals(path, operations[method])
    return result


def _refusals(path: str, operation: dict[str, Any]) -> None:
    found = set(ALWAYS)
    parameters = operation.get("parameters", ())
    if "requestBody" in operation:
        found |= {"400", "413", "415"}
    if any(parameter["in"] != "path" for parameter in parameters):
        found.add("400")
    if "{" in path:
        found.add("404")
    responses = operation["responses"]
    found |= set(responses) & set(REFUSALS)
    for status in sorted(found):
        responses[status] = {"content": ERRORS, "description": REFUSALS[status]}
    for status in ("429", "503"):
        responses[status]["headers"] = {"Retry-After": RETRY_AFTER}
    operation["responses"] = dict(sorted(responses.items()))
