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

SCENARIOS = ("empty", "healthy", "broken", "waves", "proposed", "recovered")
USER, PASSWORD = "admin", "resurge-demo"
OTHERS = ("operator", "viewer")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", choices=SCENARIOS, default="healthy")
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--still", action="store_true", help="publish nothing after the seeding")
    parser.add_argument("--home", help="directory of the database")
    parser.add_argument("--redis", default="redis://127.0.0.1:1/0", help="the channel layer")
    arguments = parser.parse_args()
    home = arguments.home or tempfile.mkdtemp(prefix="resurge-seeded-")
    os.environ.update(
        DJANGO_SETTINGS_MODULE="controlplane.config.settings",
        RESURGE_HOME=home,
        RESURGE_SECRET_KEY="only for looking at seeded pages; sessions survive a restart",
        RESURGE_PORT=str(arguments.port),
        RESURGE_FAULT_INJECTION="1",
        RESURGE_HTTPS="0",
        RESURGE_REDIS_URL=arguments.redis,
    )
    import django

    django.setup()
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Group
    from django.core.management import call_command
    from django.db import connection

    from tests.browser.coordinating import operations_run
    from tests.browser.seeding import Pulse, seed

    call_command("migrate", verbosity=0)
    pulse = Pulse()
    if not get_user_model().objects.exists():
        get_user_model().objects.create_superuser(USER, password=PASSWORD)
        for name in OTHERS:
            user = get_user_model().objects.create_user(name, password=PASSWORD)
            user.groups.add(Group.objects.get(name=name))
        seed(arguments.scenario)
        if arguments.scenario != "empty":
            for _ in range(60):
                pulse.beat()
    connection.close()

    def beat() -> None:
        while True:
            time.sleep(1)
            pulse.beat()

    if not arguments.still and arguments.scenario != "empty":
        threading.Thread(target=beat, daemon=True).start()
    threading.Thread(target=operations_run, daemon=True).start()
    import uvicorn

    uvicorn.run(
        "controlplane.config.asgi:application", host="127.0.0.1", port=arguments.port, log_level="warning"
    )


if __name__ == "__main__":
    main()
