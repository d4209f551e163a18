"""Request bodies: JSON everywhere, YAML where a topology is described; bounded, and plain text only."""

from __future__ import annotations

import json
from typing import IO, Any

from rest_framework import status
from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import BaseParser, JSONParser

from domain.plain_data import plain_require

LONGEST = 2_500_000
"""Bytes. A topology of a thousand operators takes a tenth of it."""


class BodyTooLarge(APIException):
    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    default_detail = f"The body is longer than {LONGEST} bytes."


class PlainJSONParser(JSONParser):
    """JSON of a bearable size and depth, without characters that neither database stores."""

    def parse(self, stream: IO[bytes], media_type: Any = None, parser_context: Any = None) -> Any:
        text = _text(stream)
        try:
            data = json.loads(text, parse_constant=_constant_refuse)
            plain_require(data)
        except ValueError as error:
            raise ParseError(f"JSON parse error - {error}") from None
        except RecursionError:
            raise ParseError("JSON parse error - nested too deeply") from None
        return data


class YamlSpecificationParser(BaseParser):
    """A body that is a topology's specification itself; what else the request says is in its query."""

    media_type = "application/yaml"

    def parse(self, stream: IO[bytes], media_type: Any = None, parser_context: Any = None) -> dict[str, Any]:
        given = parser_context["request"].query_params.dict() if parser_context else {}
        return {**given, "spec": _text(stream)}


def _text(stream: IO[bytes]) -> str:
    body = stream.read(LONGEST + 1)
    if len(body) > LONGEST:
        raise BodyTooLarge
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise ParseError(f"The body is not UTF-8: {error}") from None


def _constant_refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
