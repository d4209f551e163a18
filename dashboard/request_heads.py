"""Heads of requests: bounded, since the web server reads them before it knows who sends them."""

from __future__ import annotations

from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LONGEST: Final = 65_536
"""Bytes of what is not the body: the address, headers, trailers, and the lengths of chunks."""

_TOO_LONG: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
)


class BoundedHeads(HttpToolsProtocol):
    """Closes a connection whose request has more than `LONGEST`; uvicorn's own keeps all that comes."""

    _length = 0

    def data_received(self, data: bytes) -> None:
        self._length += len(data)
        super().data_received(data)
        if self._length > LONGEST and not self.transport.is_closing():
            self.transport.write(_TOO_LONG)
            self.transport.close()

    def on_body(self, body: bytes) -> None:
        self._length -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._length = 0
        super().on_message_complete()
