"""Many websocket clients in a process of their own: `python -m benchmarks.dashboard.listeners`.

They ask for compression as browsers do, subscribe to everything and note when a message came and which events
it covers. They do not look into it further: 500 browsers have 500 processors for that, and this machine has
none to spare. Reads commands from standard input and answers on standard output, one JSON text a line:

    {"do": "connect", "count": 500}    connects and subscribes; answers when all have
    {"do": "forget"}                   drops what was noted
    {"do": "report"}                   everything noted: for each client [arrival, after, sequence, bytes]
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import re
import sys
import time
import zlib
from typing import Any

import msgspec

COVERS = re.compile(rb'"type":"events".{0,60}?"after":(\d+),"sequence":(\d+)')
HEAD = 200
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
COMPRESSED = 0x40
AT_ONCE = 50


class Listener(asyncio.Protocol):
    """One client. `heard` is [arrival (Unix seconds), after, sequence, bytes] of each message."""

    def __init__(self, arguments: argparse.Namespace, after: int) -> None:
        self._arguments, self._after = arguments, after
        self._buffer = bytearray()
        self._open = False
        self._inflate: Any = None
        self.heard: list[tuple[float, int, int, int]] = []
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def compressed(self) -> bool:
        return self._inflate is not None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        host = f"{self._arguments.host}:{self._arguments.port}"
        transport.write(
            (
                f"GET /ws/v1/ HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n"
                "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n"
                "Sec-WebSocket-Extensions: permessage-deflate\r\n"
                f"Cookie: {self._arguments.cookie}\r\n\r\n"
            ).encode()
        )

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._open:
            head, separator, rest = bytes(self._buffer).partition(b"\r\n\r\n")
            if not separator:
                return
            if not head.startswith(b"HTTP/1.1 101"):
                self._fail(head.decode(errors="replace").splitlines()[0])
                return
            self._open = True
            if b"permessage-deflate" in head.lower():
                self._inflate = zlib.decompressobj(wbits=-15)
            self._buffer = bytearray(rest)
            subscribe = {"type": "subscribe", "after": self._after, "topologies": None}
            self._send(TEXT, msgspec.json.encode(subscribe))
            self.ready.set_result(None)
        while self._frame():
            pass

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"the connection was lost: {exc}")

    def _frame(self) -> bool:
        """Take one frame from the buffer; whether there was a whole one."""
        buffer = self._buffer
        if len(buffer) < 2:
            return False
        size, start = buffer[1] & 0x7F, 2
        if size >= 126:
            start = 4 if size == 126 else 10
            if len(buffer) < start:
                return False
            size = int.from_bytes(buffer[2:start], "big")
        if len(buffer) < start + size:
            return False
        kind = buffer[0] & 0x0F
        if kind == PING:
            self._send(PONG, bytes(buffer[start : start + size]))
        elif kind == CLOSE:
            self._fail(f"the server closed: {bytes(buffer[start + 2 : start + size])!r}")
        elif kind == TEXT:
            payload = buffer[start : start + (size if self._inflate else min(size, HEAD))]
            if self._inflate and buffer[0] & COMPRESSED:
                payload = self._inflate.decompress(payload + b"\0\0\xff\xff")
            found = COVERS.search(payload, 0, HEAD)
            if found:
                self.heard.append((time.time(), int(found[1]), int(found[2]), size))
        del buffer[: start + size]
        return True

    def _send(self, kind: int, payload: bytes) -> None:
        mask = b"\0\0\0\0"  # a key like any other, and the payload stays as it is
        self._transport.write(bytes((0x80 | kind, 0x80 | len(payload))) + mask + payload)

    def _fail(self, what: str) -> None:
        if not self.ready.done():
            self.ready.set_exception(ConnectionError(what))
        elif self._open:
            self._open = False
            sys.stderr.write(f"listener: {what}\n")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--cookie", required=True, help="of a session, as in the header")
    parser.add_argument("--after", type=int, required=True, help="sequence number to listen from")
    arguments = parser.parse_args()
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader(limit=2**20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    listeners: list[Listener] = []

    async def connect() -> Listener:
        listener = Listener(arguments, arguments.after)
        await loop.create_connection(lambda: listener, arguments.host, arguments.port)
        await asyncio.wait_for(listener.ready, 60)
        return listener

    while line := await commands.readline():
        command = msgspec.json.decode(line)
        answer: dict[str, Any] = {"clients": len(listeners)}
        match command["do"]:
            case "connect":
                for first in range(0, command["count"], AT_ONCE):
                    batch = min(AT_ONCE, command["count"] - first)
                    listeners += await asyncio.gather(*(connect() for _ in range(batch)))
                answer = {"clients": len(listeners), "compressed": any(one.compressed for one in listeners)}
            case "forget":
                for one in listeners:
                    one.heard.clear()
            case "report":
                answer["heard"] = [one.heard for one in listeners]
        sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
