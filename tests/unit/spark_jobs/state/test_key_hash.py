"""The hash that decides which partition has a key: it must never change."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.state.key_hash import hash_strings

KNOWN = [
    1760245841805064774,
    13950350942979735504,
    13722374294808264119,
    7496632694068917282,
    7122263577135870196,
    1042187066838358685,
    6193390448582542393,
    5928711828321112372,
]
texts = st.lists(st.text(st.characters(codec="utf-8"), max_size=70), max_size=30)


def pandas_hashes(values: list[str]) -> list[int]:
    hashes = pd.util.hash_array(np.asarray(values, dtype=object), categorize=False)
    return [int(one) for one in hashes]


@given(texts)
def test_it_is_that_of_pandas(values: list[str]) -> None:
    assert hash_strings(pa.array(values, pa.string())).tolist() == pandas_hashes(values)


@given(texts, st.data())
def test_a_part_of_an_array_has_the_hashes_of_its_strings(values: list[str], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(values)))
    last = data.draw(st.integers(first, len(values)))
    part = pa.array(values, pa.string())[first:last]
    assert hash_strings(part).tolist() == pandas_hashes(values[first:last])


def test_hashes_of_known_strings() -> None:
    """If this fails, every deployed topology would look for its keys in other partitions."""
    known = ["", "a", "hashtag", "12345678", "123456789", "größer", "x" * 255, "x" * 256]
    assert hash_strings(pa.array(known)).tolist() == KNOWN
