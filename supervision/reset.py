"""`make reset`: a new start. Everything that ran is forgotten, and outputs are kept under another name."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path

from host.private import database_files
from supervision.installation import recorded
from supervision.ports import LOOPBACK
from supervision.screen import Progress
from supervision.stop import stop

OF_RUNS = ("checkpoints", "db", "nodes", "redis", "spark", "topologies", "zookeeper")
"""Directories of a home whose contents come from what ran there."""
KEPT_IN_RUN = frozenset({"access.json", "environment", "ports.json", "profile.json"})
"""How to sign in, secrets, addresses and the profile: they are the same after a new start."""


class NotResetError(RuntimeError):
    """The message says what stands in the way; nothing was changed."""


def reset_warning(home: Path) -> str:
    """What a new start does here, for a question to the operator."""
    return (
        f"A new start in {home}: everything that runs there ends. Topologies, their checkpoints, savepoints, "
        "incidents, users, tokens and history are deleted for good. Outputs are kept under another name; "
        "password, ports, profile, input and logs stay."
    )


def reset(home: Path, progress: Progress) -> Path | None:
    """Stop everything and delete what `reset_warning` names; returns where the outputs are now, None if there
    are none. Raises `NotResetError` where nothing was ever started or data is kept elsewhere, and `OSError`;
    after an error, call it again."""
    if recorded(home) is None:
        raise NotResetError(f"nothing was ever started in {home}")
    elsewhere = _elsewhere(home)
    if elsewhere:
        raise NotResetError(
            f"{', '.join(elsewhere)}: what is kept there is not in its usual place in {home}. A new start "
            "would delete only a part of what belongs together; delete topologies one by one (`resurge "
            "topologies delete`)."
        )
    stop(home, progress)
    outputs = home / "outputs"
    kept = None
    if outputs.is_dir() and any(outputs.iterdir()):
        stamp = datetime.now().astimezone().strftime("%Y%m%dT%H%M%S")
        kept = outputs.rename(home / f"outputs.until-{stamp}")
    for name in OF_RUNS:
        if (home / name).exists():
            shutil.rmtree(home / name)
    # Last, because it names the processes of the last start.
    for entry in [*(home / "run").iterdir()]:
        if entry.name not in KEPT_IN_RUN:
            _remove(entry)
    return kept


def _elsewhere(home: Path) -> list[str]:
    """Settings by which data is kept in another place than that which a new start clears."""
    installation = recorded(home)
    if installation is None:
        return []
    settings = installation.settings
    found: list[str] = []
    if settings.zookeeper != f"{LOOPBACK}:{installation.ports.get('zookeeper')}":
        found.append("RESURGE_ZOOKEEPER")
    database = database_files(settings.database_url)
    own = home.resolve()
    # The places themselves are not resolved: a link there leads to another.
    for name, place, cleared in (
        ("RESURGE_DATABASE_URL", database[0].parent if database else Path("/"), own / "db"),
        ("RESURGE_CHECKPOINTS", Path(settings.checkpoints.removeprefix("file://")), own / "checkpoints"),
        ("RESURGE_OUTPUTS", Path(settings.outputs), own / "outputs"),
    ):
        if place.resolve() != cleared:
            found.append(name)
    return found


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
