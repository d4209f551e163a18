"""`python -m spark_jobs.agent --node node-1 --address 127.0.1.1 --rack rack-a --slots 2 --capacity 100`."""

from __future__ import annotations

import argparse
import os
import sys

from host import environment
from host.absent import absent
from host.private import home_protect

with absent("rich"):  # structlog loads it, for logs on a screen, wherever it is installed
    from spark_jobs.agent.agent import Agent, AlreadyRunningError, lead_session
    from spark_jobs.agent.membership import NodeIdentity
    from spark_jobs.state.state_storage import UnusableUrlError


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m spark_jobs.agent", description="Run the agent of one node."
    )
    parser.add_argument("--node", required=True, help="name of the node, such as node-1")
    parser.add_argument("--address", required=True, help="address its executors listen on, such as 127.0.1.1")
    parser.add_argument("--rack", required=True, help="failure domain, such as rack-a")
    parser.add_argument("--slots", type=int, default=2, help="cores of each topology's executor")
    parser.add_argument(
        "--capacity", type=int, default=100, help="CPU percent that may be planned; 100 is one core"
    )
    parser.add_argument("--standby", action="store_true", help="register as a standby node: no primaries")
    options = parser.parse_args()
    try:
        settings = environment.read()
        home_protect(settings.home, files=False)
    except (environment.InvalidEnvironment, OSError) as error:
        parser.exit(2, f"{error}\n")
    identity = lead_session(
        NodeIdentity(
            id=options.node,
            address=options.address,
            rack=options.rack,
            slots=options.slots,
            capacity=options.capacity,
            standby=options.standby,
            pid=os.getpid(),
        )
    )
    try:
        return Agent(identity, settings).run()
    except AlreadyRunningError as error:
        sys.stderr.write(f"{error}\n")
        return 3
    except UnusableUrlError as error:
        sys.stderr.write(f"RESURGE_CHECKPOINTS: {error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
