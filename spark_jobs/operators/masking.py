"""What an operator's error says, without the values of masked columns of its input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from domain.masking import text_masked

LONGEST: Final = 20_000
"""Characters of a text in which all values of an epoch are looked for, in about a second."""


def error_masked(
    told: tuple[str, str], inputs: Mapping[str, Sequence[pa.Table]], masked: Sequence[str]
) -> tuple[str, str]:
    """An error and its hint. A value that an operator has changed before it names it is not recognised. Of a
    long text only the kind is told: to search it takes minutes, and in a part of it a value may be cut."""
    if not masked:
        return told
    if len(told[0]) + len(told[1]) > LONGEST:
        kind = told[0].partition(":")[0][:100]
        return f"{kind}: its text is too long to be told without the values of masked columns", ""
    values = list(_values(inputs, masked))
    return text_masked(told[0], values), text_masked(told[1], values)


def _values(inputs: Mapping[str, Sequence[pa.Table]], masked: Sequence[str]) -> Iterator[Any]:
    for tables in inputs.values():
        for table in tables:
            for name in masked:
                if name in table.column_names:
                    yield from table.column(name).to_pylist()
