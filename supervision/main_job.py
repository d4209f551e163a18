"""What a start does about the main job: as a rule nothing, because what was deployed goes on by itself.

Every start after the first finds in the database what was deployed, and in ZooKeeper, the epoch log and the
checkpoints how far it came. It is deployed anew only where the command names another input, rate or limit
than the last one did, or another profile.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import msgspec

from host.durable import write_whole

ENDED = ("stopped", "completed", "failed")
NEVER_RAN = ("absent", "draft")


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """What a command names of the main job; an empty text is what it leaves to its pipeline."""

    pipeline: str
    input: str = ""
    rate: str = ""
    limit: str = ""

    @property
    def named(self) -> bool:
        return bool(self.input or self.rate or self.limit)


class Deployed(msgspec.Struct, frozen=True, kw_only=True):
    """`run/main-job.json`: what the last start named. Not `settled`: that start was to deploy it, and ended
    before it had."""

    source: Source
    settled: bool


class Step(Enum):
    """What a start does about the main job."""

    DEPLOY = "deploy"  # it never ran
    DEPLOY_ANEW = "deploy anew"  # another one is asked for: what runs ends first
    GO_ON = "go on"  # it is to run, and goes on from its newest checkpoint
    LEAVE = "leave"  # it has ended, or was stopped by an operator


_decoder = msgspec.json.Decoder(Deployed)


def step_of(*, status: str, wanted: Source, last: Deployed | None, profile_changes: bool) -> Step:
    """status: that of the topology, `absent` where there is none of its name."""
    if status in NEVER_RAN:
        return Step.DEPLOY
    interrupted = last is not None and not last.settled
    other = wanted.named and (last is None or wanted != last.source)
    if profile_changes or interrupted or other:
        return Step.DEPLOY_ANEW
    return Step.LEAVE if status in ENDED else Step.GO_ON


def deployed_read(home: Path) -> Deployed | None:
    """None where no start has noted it, or its note cannot be read."""
    try:
        return _decoder.decode(_path(home).read_bytes())
    except (OSError, msgspec.DecodeError):
        return None


def deployed_keep(home: Path, source: Source, *, settled: bool) -> None:
    """Forced to disk: a start that found it empty would deploy the main job anew."""
    write_whole(_path(home), msgspec.json.encode(Deployed(source=source, settled=settled)), root=home)


def _path(home: Path) -> Path:
    return home / "run" / "main-job.json"
