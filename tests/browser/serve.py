"""The real web server over a seeded database: `python -m tests.browser.serve --scenario broken --port 8123`.

Needs neither ZooKeeper nor Spark. Without `--redis` events reach the browser by the feed's polling alone. The
database is kept in `--home` (default a new temporary directory) and seeded when there is none yet.
What operators ask of incidents is carried out by the coordinator's own code, without ZooKeeper: plans are
made and published, and no driver answers. Users `admin`, `operator` and `viewer`, password `resurge-demo`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

if TYPE_CHECKING:
    from tests.browser.pulse import Pulse
    from tests.browser.seeding import Scenario

SCENARIOS = (
    *("empty", "healthy", "broken", "proposed", "tentative", "catching_up", "recovered", "aborted"),
    *("large", "moved", "bounded"),
)
USER, PASSWORD = "admin", "resurge-demo"
OTHERS = ("operator", "viewer")
NO_REDIS = "redis://127.0.0.1:1/0"
BEATS = {"empty": 0, "large": 3}
"""Seconds of metrics before the first page is opened, by scenario; for the others a minute."""


def configure(home: Path, *, port: int = 0, redis: str = NO_REDIS) -> None:
    """Set up Django for an installation of its own; once in a process."""
    os.environ.update(variables(home, port=port, redis=redis))
    import django

    django.setup()


def variables(home: Path, *, port: int = 0, redis: str = NO_REDIS) -> dict[str, str]:
    """The settings of an installation that only serves pages."""
    return {
        "DJANGO_SETTINGS_MODULE": "controlplane.config.settings",
        "RESURGE_HOME": str(home),
        "RESURGE_DATABASE_URL": f"sqlite:///{home}/seeded.sqlite3",
        "RESURGE_SECRET_KEY": "only for looking at seeded pages; sessions survive a restart",
        "RESURGE_PORT": str(port or 8123),
        "RESURGE_FAULT_INJECTION": "1",
        "RESURGE_HTTPS": "0",
        "RESURGE_REDIS_URL": redis,
    }


def prepare() -> None:
    """Create tables and users, if there are none."""
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Group
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    if get_user_model().objects.exists():
        return
    _session(get_user_model().objects.create_superuser(USER, password=PASSWORD))
    for name in OTHERS:
        user = get_user_model().objects.create_user(name, password=PASSWORD)
        user.groups.add(Group.objects.get(name=name))
        _session(user)


def session_of(name: str) -> str:
    """Key of a session of the user, which exists from the start, so that tests need no sign-in."""
    return f"session-of-{name}"


def _session(user: Any) -> None:
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.sessions.backends.db import SessionStore
    from django.contrib.sessions.models import Session
    from django.utils import timezone

    data = {
        SESSION_KEY: str(user.pk),
        BACKEND_SESSION_KEY: "django.contrib.auth.backends.ModelBackend",
        HASH_SESSION_KEY: user.get_session_auth_hash(),
    }
    Session.objects.create(
        session_key=session_of(user.get_username()),
        session_data=SessionStore().encode(data),
        expire_date=timezone.now() + timedelta(days=1),
    )


def fill(scenario: str) -> Pulse:
    """Seed the database unless it is seeded; returns what goes on with its metrics."""
    from django.db import transaction

    from controlplane.events import services
    from controlplane.events.models import Event
    from tests.browser.pulse import Pulse
    from tests.browser.seeding import seed

    pulse = Pulse()
    if scenario != "empty" and not Event.objects.exists():
        # No page is open yet that could be told of each event.
        with patch.object(services, "hint_send", lambda sequence: None), transaction.atomic():
            seed(cast("Scenario", scenario))
            for _ in range(BEATS.get(scenario, 60)):
                pulse.beat()
    return pulse


def serve(scenario: str, port: int, *, still: bool, hold: bool = False) -> None:
    """Seed the database unless it is seeded, and serve until the process ends."""
    from django.db import connection

    from tests.browser.coordinating import operations_run

    pulse = fill(scenario)
    connection.close()

    def beat() -> None:
        while True:
            time.sleep(1)
            pulse.beat()

    if not still and scenario != "empty":
        threading.Thread(target=beat, daemon=True).start()
    threading.Thread(target=operations_run, kwargs={"nodes": not hold}, daemon=True).start()
    import uvicorn

    uvicorn.run("dashboard.asgi:application", host="127.0.0.1", port=port, log_level="warning")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", choices=SCENARIOS, default="healthy")
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--still", action="store_true", help="publish nothing after the seeding")
    parser.add_argument("--hold", action="store_true", help="leave what is asked of nodes pending")
    parser.add_argument("--home", type=Path, help="directory of the database")
    parser.add_argument("--redis", default=NO_REDIS, help="the channel layer")
    arguments = parser.parse_args()
    home = arguments.home or Path(tempfile.mkdtemp(prefix="resurge-seeded-"))
    configure(home, port=arguments.port, redis=arguments.redis)
    prepare()
    serve(arguments.scenario, arguments.port, still=arguments.still, hold=arguments.hold)


if __name__ == "__main__":
    main()
