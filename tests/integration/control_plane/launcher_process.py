"""The part of the launcher for nodes. The drivers of these tests are simulated and need no launcher.

python -m tests.integration.control_plane.launcher_process
"""

from __future__ import annotations

import time

import django

django.setup()

from host import environment  # noqa: E402 - Django's models need the set-up above
from workers.launcher.nodes import Nodes  # noqa: E402
from workers.providers.registry import provider_create  # noqa: E402

if __name__ == "__main__":
    settings = environment.read()
    nodes = Nodes(provider_create(settings), order=settings.run / "first-nodes.json")
    while True:
        nodes.step()
        time.sleep(0.2)
