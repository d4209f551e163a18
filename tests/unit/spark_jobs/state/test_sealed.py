"""Each bit of a sealed document counts."""

from __future__ import annotations

import pytest

from spark_jobs.state.sealed import DamagedError, seal, unseal
from spark_jobs.state.store import decode_manifest

BODY = b'{"epoch":7,"generation":2,"values":{"n":1}}'


def test_it_is_returned_as_it_was() -> None:
    assert unseal(seal(BODY), "x") == BODY
    assert unseal(BODY, "x") == BODY, "from a version that took no checksum"


def test_no_flipped_bit_goes_unnoticed() -> None:
    sealed = seal(BODY)
    for position in range(8 * len(sealed)):
        damaged = bytearray(sealed)
        damaged[position // 8] ^= 1 << position % 8
        with pytest.raises(DamagedError, match="dir/7"):
            decode_manifest(unseal(bytes(damaged), "dir/7"), "dir/7", epoch=7)


def test_no_truncation_goes_unnoticed() -> None:
    sealed = seal(BODY)
    for length in range(len(sealed)):
        with pytest.raises(DamagedError, match="dir/7"):
            decode_manifest(unseal(sealed[:length], "dir/7"), "dir/7", epoch=7)


def test_the_state_of_another_epoch_is_refused() -> None:
    with pytest.raises(DamagedError, match="dir/7 is the state of epoch 7, not of 8"):
        decode_manifest(BODY, "dir/7", epoch=8)
