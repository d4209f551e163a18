"""``manage.py deploy hashtags``: create or update a topology and start it."""

from __future__ import annotations

import getpass
import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.errors import Invalid, ServiceError
from controlplane.events.choices import Channel
from controlplane.lifecycle.topologies import topology_deploy
from controlplane.nodes.choices import NODE_USABLE
from controlplane.nodes.models import Node
from controlplane.topologies.choices import Desired, Start, TopologyStatus
from controlplane.topologies.command_arguments import (
    problem_lines,
    specification_arguments,
    specification_given,
)
from controlplane.topologies.models import Topology
from controlplane.topologies.services import topology_create, topology_update
from controlplane.topologies.submission import specification_check, specification_compose
from domain.health.shape import counted


class Command(BaseCommand):
    help = "Deploy a ready-made pipeline, or a topology from a YAML or JSON file."
    # `manage.py migrate` and `check` look at the settings; doing it again doubles the time to start.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        specification_arguments(parser)
        parser.add_argument("--reason", default="deployed from the command line")
        parser.add_argument(
            "--wait-nodes", type=int, default=0, metavar="N", help="wait until N nodes are alive"
        )
        parser.add_argument("--timeout", type=float, default=60.0, help="how long to wait, in seconds")
        parser.add_argument(
            "--if-needed", action="store_true", help="succeed without a change where it is deployed already"
        )

        parser.add_argument(
            "--continue",
            dest="goes_on",
            action="store_true",
            help="go on from the newest checkpoint, where the version fits it, instead of the first tuple",
        )
        parser.add_argument(
            "--savepoint",
            metavar="NAME",
            default="",
            help="begin with this savepoint, where the version fits it",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._deploy(options)
        except Invalid as error:
            raise CommandError(f"not deployed:\n{problem_lines(error.problems)}") from error
        except ServiceError as error:
            raise CommandError(f"not deployed: {error}") from error

    def _deploy(self, options: dict[str, Any]) -> None:
        if options["goes_on"] and options["savepoint"]:
            raise CommandError("give either --continue or --savepoint", returncode=2)
        given = specification_given(options)
        verdict = specification_check(given)
        graph = verdict.topology
        if not verdict.valid or graph is None:
            raise Invalid.from_problems(verdict.problems)
        topology = Topology.objects.filter(name=graph.name).first()
        if topology is not None and options["if_needed"] and _is_deployed(topology):
            self.stdout.write(f"{topology.name} is deployed already ({topology.status})")
            return
        if options["wait_nodes"]:
            self._wait(options["wait_nodes"], options["timeout"])
        spec = specification_compose(given)
        by: dict[str, Any] = {"actor": getpass.getuser(), "channel": Channel.CLI, "reason": options["reason"]}
        if topology is None:
            topology_create(spec=spec, **by)
        else:
            topology_update(name=graph.name, spec=spec, **by)
        start = Start.CHECKPOINT if options["goes_on"] else Start.BEGINNING
        start = Start.SAVEPOINT if options["savepoint"] else start
        operation = topology_deploy(name=graph.name, start=start, savepoint=options["savepoint"], **by)
        self.stdout.write(
            f"{graph.name}: {counted(len(graph.partitions), 'partition')}, "
            f"{counted(len(graph.queries), 'query', 'queries')}; "
            f"operation {operation.pk}"
        )

    def _wait(self, wanted: int, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while True:
            alive = Node.objects.filter(state__in=NODE_USABLE, standby=False).count()
            if alive >= wanted:
                return
            if time.monotonic() > deadline:
                raise CommandError(
                    f"not deployed: {alive} of {wanted} nodes are alive after {timeout:g} s; "
                    "see `make status` and the nodes' logs"
                )
            time.sleep(0.3)


def _is_deployed(topology: Topology) -> bool:
    return topology.desired == Desired.RUNNING and topology.status != TopologyStatus.FAILED
