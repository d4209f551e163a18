"""Answers in JSON, written by msgspec: text that is JSON already (`msgspec.Raw`) goes in as it is."""

from __future__ import annotations

from typing import Any

import msgspec
from rest_framework.renderers import JSONRenderer
from rest_framework.utils.encoders import JSONEncoder


def json_write(data: Any) -> bytes:
    return msgspec.json.encode(data, enc_hook=_plain)


class FastJSONRenderer(JSONRenderer):
    """Large columns of the database reach the answer without being read."""

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        if data is None:
            return b""
        text = json_write(data)
        indent = self.get_indent(accepted_media_type or "", renderer_context or {})
        return msgspec.json.format(text, indent=indent) if indent else text


def _plain(value: Any) -> Any:
    """What msgspec does not know: texts that are more than that (DRF's messages), and lazy ones."""
    return str.__str__(value) if isinstance(value, str) else _encoder.default(value)


_encoder = JSONEncoder()
