"""Nodes brought up by an executable that the administrator names, for instance one that calls a cloud.

It is run with one argument, the action, reads one JSON object from its standard input and writes one to its
standard output; what the two hold is in docs/control-plane.md.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Annotated, Any, Literal, TypeVar

import msgspec
import structlog

from domain.value_words import plain_message
from host.process_secrets import environment_for
from host.processes import kill_session
from workers.providers.base import (
    NodeDescription,
    NodeWanted,
    ProviderError,
    RunningNode,
)

log = structlog.get_logger(__name__)

Action = Literal["acquire", "release", "list", "fail"]
LIMITS: Mapping[Action, float] = {"acquire": 30.0, "release": 30.0, "list": 15.0, "fail": 15.0}
"""Seconds after which a call is ended; an `acquire` that needs longer answers `pending`."""
TAIL = 800
"""Characters of a failed call's output that are kept with the request."""
OUTPUT_LIMIT = 4_000_000

Answer = TypeVar("Answer", bound=msgspec.Struct)


class Acquired(msgspec.Struct, frozen=True, kw_only=True):
    """`started`: the node's agent was started. `pending`: it comes later, ask again in so many seconds."""

    state: Literal["started", "pending"]
    again_in: Annotated[float, msgspec.Meta(ge=1, le=3600)] = 10.0


class ListedNode(msgspec.Struct, frozen=True, kw_only=True):
    """One node. `dead`: it has ended and was not released."""

    name: str
    state: Literal["started", "pending", "dead"]
    rack: str = ""
    slots: int = 2
    capacity: int = 100
    standby: bool = False
    address: str = ""
    pid: int = 0


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    nodes: list[ListedNode]


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """`killed`: False where the node was dead already."""

    killed: bool


class Released(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing to say: the exit code tells."""


# Made with the module: threads must not be the first to decode a record (decision 13).
_ACQUIRED = msgspec.json.Decoder(Acquired)
_RELEASED = msgspec.json.Decoder(Released)
_LISTED = msgspec.json.Decoder(Listed)
_FAILED = msgspec.json.Decoder(Failed)


class ScriptNodeProvider:
    """Each call is one short process in a session of its own. Calls run side by side."""

    list_interval = 10.0

    def __init__(
        self,
        *,
        script: Path,
        environment: Mapping[str, str] | None = None,
        limits: Mapping[Action, float] = LIMITS,
    ) -> None:
        if not (script.is_file() and os.access(script, os.X_OK)):
            raise ProviderError(
                f"RESURGE_PROVIDER_SCRIPT={script}: there is no executable file of this name on this host"
            )
        self._script = script
        # The executable may start nodes, and gets the secrets of a node.
        self._environment = environment_for("node", os.environ if environment is None else environment)
        self._limits = limits

    def describe(self) -> str:
        return f"the executable {self._script}"

    def acquire(self, wanted: NodeWanted) -> float | None:
        asked = {
            "request": wanted.request,
            "replacement": wanted.replacement,
            "requested_at": wanted.requested_at,
            "node": msgspec.to_builtins(wanted.node),
        }
        answer = self._call("acquire", wanted.node.name, asked, _ACQUIRED)
        return None if answer.state == "started" else time.time() + answer.again_in

    def release(self, name: str, *, keep_disk: bool = False) -> None:
        self._call("release", name, {"name": name, "keep_disk": keep_disk}, _RELEASED)

    def nodes(self) -> list[RunningNode]:
        return [
            RunningNode(
                description=NodeDescription(
                    name=node.name,
                    rack=node.rack,
                    slots=node.slots,
                    capacity=node.capacity,
                    standby=node.standby,
                ),
                address=node.address,
                pid=node.pid,
                alive=node.state != "dead",
                started=node.state != "pending",
            )
            for node in self._call("list", "", {}, _LISTED).nodes
        ]

    def fail(self, name: str) -> bool:
        return self._call("fail", name, {"name": name}, _FAILED).killed

    def _call(
        self, action: Action, node: str, asked: Mapping[str, Any], answer: msgspec.json.Decoder[Answer]
    ) -> Answer:
        """Run the executable once and read its answer; raises `ProviderError` with the end of its output."""
        what = f"{self._script.name} {action} {node}".rstrip()
        try:
            # Not pipes: a node that inherited one would hold it open, and the call would not end.
            with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
                trouble = self._run(action, asked, output, errors)
                said = _read(output)
                complaint = _read(errors)
        except OSError as error:
            # What the launcher does not expect ends it, and with it the care of drivers.
            raise ProviderError(
                f"{what} was not run: its input and output cannot be kept in a temporary file ({error})"
            ) from error
        if complaint:
            log.info("provider script", call=what, output=_tail(complaint))
        if trouble:
            raise ProviderError(f"{what} {trouble}: {_tail(complaint or said) or 'it wrote nothing'}")
        try:
            return answer.decode(said or b"{}")
        except (ValueError, RecursionError) as error:
            why, wrote = plain_message(str(error)), _tail(said) or "it wrote nothing"
            raise ProviderError(f"{what} gave no answer that can be read ({why}): {wrote}") from error

    def _run(self, action: Action, asked: Mapping[str, Any], output: IO[bytes], errors: IO[bytes]) -> str:
        """What went wrong; empty after an exit with 0."""
        limit = self._limits[action]
        with tempfile.TemporaryFile() as question:
            question.write(msgspec.json.encode(asked))
            question.seek(0)
            try:
                process = subprocess.Popen(
                    [str(self._script), action],
                    env=self._environment,
                    stdin=question,
                    stdout=output,
                    stderr=errors,
                    start_new_session=True,
                )
            except OSError as error:
                return f"cannot be run ({error})"
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            kill_session(process.pid)
            process.wait()
            return f"was ended after {limit:g} seconds"
        return f"exited with {code}" if code else ""


def _read(stream: IO[bytes]) -> bytes:
    stream.seek(0)
    return stream.read(OUTPUT_LIMIT).strip()


def _tail(output: bytes) -> str:
    text = output.decode(errors="replace")
    return text if len(text) <= TAIL else f"... {text[-TAIL:]}"
