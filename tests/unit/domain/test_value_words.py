from __future__ import annotations

import msgspec
import pytest

from domain.value_words import plain_message


class Answer(msgspec.Struct, forbid_unknown_fields=True):
    again_in: float = 1.0
    nodes: list[str] = []


class Named(msgspec.Struct):
    name: str


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        (b'{"again_in": "soon"}', Answer, "again_in must be a number, not a text"),
        (b'{"nodes": [1]}', Answer, "nodes[0] must be a text, not a whole number"),
        (b"[1]", Answer, "it must be a mapping, not a list"),
        (b'{"more": 1}', Answer, "it has a field that is not known: more"),
        (b"{}", Named, "it has no name"),
    ],
)
def test_messages_of_the_decoder(text: bytes, kind: type, words: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.json.decode(text, type=kind)
    assert plain_message(str(refused.value)) == words


def test_bounds_and_what_is_not_known() -> None:
    assert plain_message("Expected `float` >= 1 - at `$.again_in`") == "again_in must be at least 1"
    assert plain_message("JSON is malformed") == "JSON is malformed"
