"""What an operator's error says, without the values of masked columns of its input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from domain.masking import text_masked


def error_masked(
    told: tuple[str, str], inputs: Mapping[str, Sequence[pa.Table]], masked: Sequence[str]
) -> tuple[str, str]:
    """An error and its hint. A value that an operator has changed before it names it is not recognised."""
    if not masked:
        return told
    values = list(_values(inputs, masked))
    return text_masked(told[0], values), text_masked(told[1], values)


def _values(inputs: Mapping[str, Sequence[pa.Table]], masked: Sequence[str]) -> Iterator[Any]:
    for tables in inputs.values():
        for table in tables:
            for name in masked:
                if name in table.column_names:
                    yield from table.column(name).to_pylist()
