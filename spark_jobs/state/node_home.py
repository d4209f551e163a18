"""Where a deployment's files are on a node: `<node home>/<kind>/<topology>/<deployed>/`, kind `state` or
`buffers`.

`deployed` is the generation of the plan that deployed the topology. It is in the path because a task of an
earlier deployment may still run, on a node that was frozen: what it writes and removes is its own.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

STATE: Final = "state"
BUFFERS: Final = "buffers"


def deployment_home(home: Path, kind: str, topology: str, deployed: int) -> Path:
    return home / kind / topology / str(deployed)


def forget_earlier(home: Path, topology: str, deployed: int) -> None:
    """Remove what earlier deployments left, and what versions without this layout did. A later deployment is
    left alone: the caller may be of an earlier one and not know."""
    for kind in (STATE, BUFFERS):
        directory = home / kind / topology
        try:
            names = os.listdir(directory)
        except FileNotFoundError:
            continue
        for name in names:
            if not (name.isascii() and name.isdigit() and int(name) >= deployed):
                shutil.rmtree(directory / name, ignore_errors=True)
