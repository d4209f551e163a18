"""`ETag`, `If-Match` and `If-None-Match`: reading and answering them."""

from __future__ import annotations

from django.utils.http import parse_etags
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import status
from rest_framework.exceptions import APIException, ParseError
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.preconditions import ANYTHING, Expected


class PreconditionRequired(APIException):
    status_code = status.HTTP_428_PRECONDITION_REQUIRED
    default_detail = (
        "This request replaces the whole resource: send If-Match with the ETag of what you have seen, or `*` "
        "to replace whatever there is."
    )


ETAG = OpenApiParameter(
    name="ETag",
    type=OpenApiTypes.STR,
    location=OpenApiParameter.HEADER,
    response=[200, 201],
    description="of what can be edited; for If-Match",
)
IF_MATCH = OpenApiParameter(
    name="If-Match",
    type=OpenApiTypes.STR,
    location=OpenApiParameter.HEADER,
    description="Only change what still has this ETag (or one of several); 412 otherwise.",
)
IF_MATCH_REQUIRED = OpenApiParameter(
    name="If-Match",
    type=OpenApiTypes.STR,
    location=OpenApiParameter.HEADER,
    required=True,
    description="The ETag of what is replaced, 412 where it is another by now; `*` for whatever there is.",
)
IF_NONE_MATCH = OpenApiParameter(
    name="If-None-Match",
    type=OpenApiTypes.STR,
    location=OpenApiParameter.HEADER,
    description="The ETag of what you have; 304 when it is still that.",
)


def expected_of(request: Request, *, required: bool = False) -> Expected:
    """What `If-Match` says. Raises `ParseError` (400) and, where it is required, `PreconditionRequired`.

    Tags are of what can be edited, not of the bytes of an answer, so those that a proxy has marked as weak,
    because it compressed the answer, say the same.
    """
    header = request.headers.get("If-Match", "").strip()
    if not header:
        if required:
            raise PreconditionRequired
        return ANYTHING
    if header == "*":
        return ANYTHING
    tags = parse_etags(header)
    if not tags:
        raise ParseError(f'If-Match: {header!r:.80} is no entity tag; write it as ETag gave it, "in quotes"')
    return Expected(frozenset(_strong(tag) for tag in tags))


def is_current(request: Request, tag: str) -> bool:
    """Whether `If-None-Match` names this tag: what it stands for need not be sent again."""
    header = request.headers.get("If-None-Match", "").strip()
    return header == "*" or _strong(tag) in {_strong(one) for one in parse_etags(header)}


def _strong(tag: str) -> str:
    return tag.removeprefix("W/")


def tagged(data: object, tag: str, *, code: int = status.HTTP_200_OK) -> Response:
    return Response(data, status=code, headers={"ETag": tag})


def not_modified(tag: str) -> Response:
    return Response(status=status.HTTP_304_NOT_MODIFIED, headers={"ETag": tag})
