"""Asking for the results of a query: what is known without the files is answered here, the rest by a process
of its own, with little memory and time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

import msgspec
import structlog
from django.conf import settings

from controlplane.errors import Busy, Conflict, Invalid, Missing
from controlplane.results.messages import (
    Answer,
    Compared,
    Comparison,
    Cursor,
    CursorError,
    Question,
    Reply,
    compared_decoder,
    reply_decoder,
)
from controlplane.topologies.models import Query, Topology
from controlplane.topologies.selectors import topology_get
from host.environment import ROOT
from host.process_secrets import environment_for

log = structlog.get_logger(__name__)

SECONDS: Final = 15.0
AT_ONCE: Final = 2
PATIENCE: Final = 5.0
"""Seconds in which a question waits for others to be answered."""
MOST_ROWS, MOST_WINDOWS = 1_000, 500
_QUERY = re.compile(r"(.+)\[(\d{1,6})\]")


class TooSlow(Conflict):
    """Reading took longer than `SECONDS`: because of what was asked for, or because the host is busy."""


_places = threading.BoundedSemaphore(AT_ONCE)


def query_results(*, topology: str, query: str, limit: int, before: str = "", windows: int = 0) -> Answer:
    """The newest committed rows of a query (`O3[0]`), and its newest windows.

    before: `next` of the page before. Raises `Missing` (no such topology or query, or no results), `Invalid`
    (a cursor that no page had, or of a page that cannot be had any more), `Conflict` (the results cannot be
    read) and `Busy` (too many questions at once). The message says why.
    """
    row = topology_get(topology, spec=False)
    found = _QUERY.fullmatch(query)
    if (
        not found
        or not Query.objects.filter(
            topology=row, partition__operator=found[1], partition__index=int(found[2])
        ).exists()
    ):
        raise Missing(f"topology {topology!r} has no query {query!r}")
    if before:
        try:
            Cursor.read(before)
        except CursorError:
            raise Invalid("before", "this is not the `next` of a page") from None
    if row.deployed_at is None:
        raise Missing(f"topology {topology!r} has never been deployed: there are no results yet")
    question = Question(
        directory=str(Path(settings.RESURGE.outputs) / topology),
        operator=found[1],
        partition=int(found[2]),
        limit=min(limit, MOST_ROWS),
        windows=min(windows, MOST_WINDOWS),
        before=before,
        masked=list(settings.RESURGE.mask_columns),
    )
    reply = asked(question)
    if reply.answer is not None:
        return reply.answer
    refusal = reply.refusal
    if refusal is None or refusal.absent:
        raise Missing(_absence(row))
    if refusal.overtaken:
        raise Invalid("before", refusal.message)
    raise Conflict(refusal.message)


def _absence(topology: Topology) -> str:
    if topology.committed_epoch:
        return (
            f"the outputs of topology {topology.name!r} are not where this server reads them: they were "
            "deleted or moved, or are on another host"
        )
    return f"topology {topology.name!r} has not committed an epoch yet: there are no results yet"


def asked(question: Question) -> Reply:
    """The reply of the reading process. Raises `Busy` and `Conflict`."""
    return reply_decoder.decode(_replied(question))


def compared(comparison: Comparison) -> Compared:
    """What a reading process finds. Raises `Busy` and `Conflict` (`TooSlow` is one)."""
    return compared_decoder.decode(_replied(comparison, "compare"))


def _replied(question: Question | Comparison, *arguments: str) -> bytes:
    if not _places.acquire(timeout=PATIENCE):
        raise Busy("results of other queries are being read; ask again in a few seconds")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "controlplane.results", *arguments],
            input=msgspec.json.encode(question),
            capture_output=True,
            cwd=ROOT,
            env=environment_for("operators", os.environ),
            timeout=SECONDS,
            check=True,
        )
        return done.stdout
    except subprocess.TimeoutExpired:
        raise TooSlow(
            f"reading took longer than {SECONDS:g} s and was ended; ask for fewer rows, or read the files"
        ) from None
    except subprocess.CalledProcessError as error:
        log.error(
            "results not read", code=error.returncode, end=error.stderr[-2_000:].decode(errors="replace")
        )
        raise Conflict("reading the results failed; the log of the web process says why") from None
    finally:
        _places.release()
