"""Long answers in JSON that are already text, compressed for clients that accept compression."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from django.http import HttpResponse
from django.utils.cache import patch_vary_headers
from rest_framework.request import Request

FASTEST = 1
"""zlib's level: a sixth of the size for a tenth of the time that the best one takes."""

WORTH_IT = 2_000
"""Bytes."""


@dataclass(frozen=True, slots=True)
class Document:
    """An answer but for its end, and the same compressed: an end costs nothing, however often it is another.

    What `compressor` still holds follows `compressed`; copies of it write the ends.
    """

    text: bytes
    compressed: bytes
    compressor: zlib._Compress

    @classmethod
    def of(cls, parts: Iterable[bytes]) -> Document:
        """Put `parts` together. What there is already is compressed while the next part is being read."""
        compressor = zlib.compressobj(FASTEST, wbits=31)
        with ThreadPoolExecutor(1) as beside:
            written, compressing = [], []
            for part in parts:
                written.append(part)
                compressing.append(beside.submit(compressor.compress, part))
            return cls(b"".join(written), b"".join(one.result() for one in compressing), compressor)

    def gzip(self, end: bytes = b"") -> bytes:
        """All of it as a gzip file."""
        last = self.compressor.copy()
        return b"".join((self.compressed, last.compress(end), last.flush()))


def document_answer(request: Request, document: Document | bytes, end: bytes = b"") -> HttpResponse:
    """`document` and `end` in the form the client accepts; text that is not compressed yet is if it is
    long."""
    text = document if isinstance(document, bytes) else document.text
    response = HttpResponse(content_type="application/json")
    patch_vary_headers(response, ("Accept-Encoding",))
    if len(text) < WORTH_IT or "gzip" not in request.headers.get("Accept-Encoding", ""):
        response.content = text + end
        return response
    response.headers["Content-Encoding"] = "gzip"
    response.content = (
        zlib.compress(document + end, FASTEST, wbits=31)
        if isinstance(document, bytes)
        else document.gzip(end)
    )
    return response
