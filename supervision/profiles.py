"""The two demos that `make up` can start: `PROFILE=scarce`, the default, and `PROFILE=roomy`.

A profile is a set of defaults: what the command line and the shell's RESURGE_* variables say goes before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from host.durable import write_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """`capacity` of a node is in CPU percent of one core, and its quota where control groups can be written.
    `cpu_request` is what each query of the main job requests, in cores; None: what its pipeline says. `about`
    is shown."""

    name: str
    about: str
    nodes: int
    slots: int
    capacity: int
    cpu_request: float | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


# 80 % of a node may be planned, and each query requests 15 %, so with the 8 to 20 % that every node takes
# anyway it has room for four queries. Four nodes have room for one query more than there are. So two nodes
# can take one of the queries that the other two had, and each replacement four: queries return in three waves
# or more. They request far more than they take, so that waves depend on plans and not on the speed of the
# host (docs/capacity.md).
SCARCE = Profile(
    name="scarce",
    about="nodes are nearly full, queries come back in waves (PROFILE=roomy: room to spare)",
    nodes=4,
    slots=2,
    capacity=100,
    cpu_request=0.15,
    settings={"RESURGE_REPLACEMENT_DELAY": "uniform:15:60"},
)
# Two nodes have room for everything.
ROOMY = Profile(
    name="roomy",
    about="room to spare (PROFILE=scarce: queries come back in waves)",
    nodes=4,
    slots=2,
    capacity=100,
    settings={"RESURGE_REPLACEMENT_DELAY": "uniform:6:15"},
)
PROFILES: Mapping[str, Profile] = {profile.name: profile for profile in (SCARCE, ROOMY)}
DEFAULT = SCARCE


class InvalidProfile(ValueError):  # noqa: N818 - named for what is the matter
    """There is no profile of this name; the message names those that there are."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """`run/profile.json`: the profile of the last start. Not `settled`: that start was to change the profile
    of the home, and ended before nodes and main job were changed."""

    name: str
    settled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The profile of a start. `changes`: nodes and main job of this home may be those of another one."""

    profile: Profile
    changes: bool


_kept = msgspec.json.Decoder(Kept)


def profile_named(name: str) -> Profile:
    """Raises `InvalidProfile`."""
    found = PROFILES.get(name.lower())
    if found is None:
        raise InvalidProfile(f"PROFILE={name}: give {' or '.join(PROFILES)}")
    return found


def profile_choose(home: Path, named: str) -> Choice:
    """The profile that was named, else that of the last start in this home, else the default.

    A home that was started before there were profiles is roomy. Raises `InvalidProfile`.
    """
    kept = _read(home)
    profile = profile_named(named or (DEFAULT.name if kept is None else kept.name))
    changes = kept is not None and (kept.name != profile.name or not kept.settled)
    return Choice(profile=profile, changes=changes)


def profile_keep(home: Path, profile: Profile, *, settled: bool) -> None:
    """Note the profile of this start for the next one. Forced to disk: a start that found it empty would take
    the default for what nodes and main job have."""
    write_whole(_path(home), msgspec.json.encode(Kept(name=profile.name, settled=settled)), root=home)


def _read(home: Path) -> Kept | None:
    try:
        kept = _kept.decode(_path(home).read_bytes())
    except OSError:
        return Kept(name=ROOMY.name, settled=True) if (home / "run" / "environment").is_file() else None
    except msgspec.DecodeError:
        return None
    return kept if kept.name in PROFILES else None


def _path(home: Path) -> Path:
    return home / "run" / "profile.json"
