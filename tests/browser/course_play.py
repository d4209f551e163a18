"""Random things happen to the installation of a running server, one for each line of standard input.

`python -m tests.browser.course_play --seed 3` in the environment of a `Server` with the scenario `empty`.
The first line of output is a token; each further one has what was done and the number of the newest event
then.
"""

from __future__ import annotations

import argparse
import json
import random
import sys


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    import django

    django.setup()
    from django.contrib.auth import get_user_model
    from knox.models import AuthToken

    from controlplane.events.models import Event
    from tests.unit.controlplane.health.courses import ACTIONS, Course, setting_make

    setting_make()
    _, token = AuthToken.objects.create(user=get_user_model().objects.get(username="admin"))
    print(token, flush=True)
    course = Course(random.Random(options.seed), random.Random(f"tentative-{options.seed}"))
    actions = {action.__name__.strip("_"): action for action, _ in ACTIONS}
    for line in sys.stdin:
        done = course.step(actions[line.strip()])
        print(json.dumps([done, Event.objects.latest("sequence").sequence]), flush=True)


if __name__ == "__main__":
    main()
