"""Checksums: whether a stored file still is what was written."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

DIGITS = 32
"""Of a checksum in hexadecimal: the first 128 bits of SHA-256."""


UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError)
"""What decoding JSON raises."""


class DamagedError(ValueError):
    """Something stored is missing, changed or another's; the message names the file. paths: what is of no use
    any more, as far as it is there."""

    def __init__(self, message: str, *paths: str) -> None:
        super().__init__(message)
        self.paths = paths


class _Sealed(msgspec.Struct, frozen=True):
    checksum: str
    body: msgspec.Raw


_sealed = msgspec.json.Decoder(_Sealed)


def checksum_of(content: bytes | memoryview) -> str:
    return hashlib.sha256(content).hexdigest()[:DIGITS]


def file_checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:DIGITS]


def seal(body: bytes) -> bytes:
    """A JSON document with its checksum: `{"checksum": ..., "body": ...}`."""
    return msgspec.json.encode(_Sealed(checksum_of(body), msgspec.Raw(body)))


def unseal(data: bytes, where: str) -> bytes:
    """The document, as it was sealed. What carries no checksum stems from a version before this one, and is
    returned as it is. Raises `DamagedError`."""
    try:
        sealed = _sealed.decode(data)
    except msgspec.ValidationError:
        return data
    except UNREADABLE as error:
        raise DamagedError(f"{where} is damaged: {error}", where) from error
    body = bytes(sealed.body)
    if checksum_of(body) != sealed.checksum:
        raise DamagedError(f"{where} is damaged: its checksum is not the one that it was written with", where)
    return body
