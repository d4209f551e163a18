"""Values as znodes hold them: JSON, compressed where it is long.

What is said of partitions grows with their number, and its names repeat: compressed it takes a seventh. A
server keeps its last 500 writes in memory, twice, and from a request that is larger than its `jute.maxbuffer`
it cuts the connection without an answer.
"""

from __future__ import annotations

import zlib

from domain.messages import LARGEST_VALUE, UnreadableValueError

LONG = 64 << 10
"""Bytes from which a value is compressed."""
LARGEST_PACKED = 4 << 20
"""Bytes of a znode: twice what there is to say of the most partitions that a topology may have."""
LARGEST_REQUEST = LARGEST_PACKED + (64 << 10)
"""Bytes of a request, which names the path as well: the `jute.maxbuffer` that servers need."""

_COMPRESSED = b"x"
"""What zlib begins with, and JSON does not."""


def packed(value: bytes) -> bytes:
    return value if len(value) < LONG else zlib.compress(value, 1)


def unpacked(data: bytes) -> bytes:
    """Raises `UnreadableValueError`. What is longer than any value is cut, so that it takes no memory."""
    if not data.startswith(_COMPRESSED):
        return data
    try:
        return zlib.decompressobj().decompress(data, LARGEST_VALUE + 1)
    except zlib.error as error:
        raise UnreadableValueError(f"it cannot be decompressed: {error}") from error
