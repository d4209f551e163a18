"""Static files, compressed, and kept by browsers for good where their address holds a hash.

Nothing has to be collected: a file is compressed when it is asked for first, into a directory of the
installation.
"""

from __future__ import annotations

import gzip
import os
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

from dashboard.assets import asset_version, names_its_content

log = structlog.get_logger(__name__)

COMPRESSED = (".js", ".css", ".svg")
SMALLEST = 1_000
"""Bytes; less is not worth it."""
KEPT = ("Content-Type", "Cache-Control", "Access-Control-Allow-Origin")
"""Headers of a file that its compressed form has, too; the others belong to the content."""
FOREVER = "max-age=31536000, public, immutable"
FONTS = "max-age=604800, public"


class StaticFiles(WhiteNoiseMiddleware):
    """Serves a file as gzip where the browser takes that."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._looked_at: set[str] = set()
        super().__init__(*arguments, **options)

    def serve(self, static_file: Any, request: HttpRequest) -> HttpResponseBase:
        url = request.path_info
        if url.endswith(COMPRESSED) and url not in self._looked_at:
            self._looked_at.add(url)
            static_file = self._compressed(static_file, url)
        response: HttpResponseBase = super().serve(static_file, request)
        if names_its_content(url) or request.GET.get("v") == asset_version():
            response["Cache-Control"] = FOREVER
        elif url.endswith(".woff2"):
            response["Cache-Control"] = FONTS
        return response

    def _compressed(self, static_file: Any, url: str) -> Any:
        """The file with its compressed form beside it; as it is where that cannot be made."""
        if self.autorefresh:
            return static_file
        _, path, headers = static_file.alternatives[-1]  # the last one is not compressed
        try:
            made = gzip_of(Path(path), settings.RESURGE.home / "compressed")
        except OSError as error:
            log.warning("static file not compressed", file=path, error=str(error))
            return static_file
        if made is None:
            return static_file
        own = [(name, value) for name, value in headers if name in KEPT]
        self.files[url] = StaticFile(path, own, encodings={"gzip": str(made)})
        return self.files[url]


def gzip_of(file: Path, directory: Path) -> Path | None:
    """A compressed copy of `file` in `directory`, made where it is not there; None if it is not smaller.
    Raises `OSError`."""
    content = file.read_bytes()
    if len(content) < SMALLEST:
        return None
    made = directory / f"{file.name}-{sha256(content).hexdigest()[:20]}.gz"
    if made.exists():
        return made
    packed = gzip.compress(content, mtime=0)
    if len(packed) >= len(content):
        return None
    directory.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=directory)
    with os.fdopen(handle, "wb") as target:
        target.write(packed)
    os.replace(temporary, made)  # of two processes that make it, either copy does
    return made
