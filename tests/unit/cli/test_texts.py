"""The server's sentences are shown as they are."""

from __future__ import annotations

from typing import Any

import pytest

from cli.commands.incidents import PROPOSALS, STORY

SENTENCE = "queries O2[0] return. It takes 0.02 of the 0.02 cores that are free."


@pytest.mark.parametrize(
    ("columns", "title", "field"), [(PROPOSALS, "WHY", "reason"), (STORY, "WHAT", "text")]
)
def test_no_number_of_a_sentence_is_changed(columns: Any, title: str, field: str) -> None:
    (column,) = [one for one in columns if one.title == title]
    assert column.value({field: SENTENCE}) == SENTENCE
