"""The availability trackers of all topologies, kept in step with incidents in the database."""

from __future__ import annotations

import time
from datetime import datetime

import structlog
from django.conf import settings

from controlplane.incidents.selectors import incidents_open
from controlplane.incidents.services import story_add
from controlplane.topologies.choices import QueryStatus
from controlplane.topologies.models import Query, Topology
from domain.availability import AvailabilityTracker, Policy, QueryHealth
from domain.messages import EpochReport
from domain.recovery.wording import baseline_accepted
from domain.topology import partition_id

log = structlog.get_logger(__name__)

INCIDENTS_EVERY = 1.0
"""Seconds between two looks into the database."""


class Availabilities:
    """The availability trackers of all topologies, kept in step with incidents in the database."""

    def __init__(self) -> None:
        self._policy = Policy(theta=settings.RESURGE.theta)
        self._trackers: dict[str, AvailabilityTracker] = {}
        # When the topologies were deployed of which these are.
        self._deployed: dict[str, datetime | None] = {}
        self._failed: set[tuple[str, str]] = set()
        self._looked_at = float("-inf")
        self.incidents: dict[str, int] = {}

    def observe(self, report: EpochReport) -> tuple[dict[str, QueryHealth], bool]:
        """Verdicts on the queries of a report, and whether one of them changed its availability."""
        tracker = self._tracker(report.topology)
        changed = False
        verdicts: dict[str, QueryHealth] = {}
        for query, metrics in report.queries.items():
            before = tracker.health(query).available
            verdicts[query] = tracker.observe(
                query,
                at=report.ended_at,
                latency=metrics.latency,
                stalled=metrics.stalled,
                caught_up=report.caught_up,
            )
            changed |= verdicts[query].available != before
        self._tell_settled(report.topology, tracker)
        return verdicts, changed

    def _tell_settled(self, topology: str, tracker: AvailabilityTracker) -> None:
        """The story of an incident tells which latencies have become usual ones by themselves."""
        for query, times in tracker.settled().items():
            log.info(
                "latency accepted as the usual one", topology=topology, query=query, times=round(times, 3)
            )
            if topology in self.incidents:
                text = baseline_accepted(f"{topology} {query}", self._policy.settle, times)
                number, key = self.incidents[topology], f"settled/{topology}/{query}/{time.time():.0f}"
                story_add(number=number, kind="outcome", text=text, key=key[:128])

    def _accept(self) -> None:
        """What operators have accepted; a query without a recent result waits until it has one."""
        wanted = Query.objects.filter(accept_latency=True).select_related("topology", "partition")
        for row in wanted.defer("topology__spec"):
            tracker = self._tracker(row.topology.name)
            if row.available or tracker.baseline_accept(row.partition.label) is not None:
                Query.objects.filter(pk=row.pk).update(accept_latency=False)

    def look(self, *, force: bool = False) -> None:
        """Read from the database which topologies have an incident and which queries have failed."""
        if not force and time.monotonic() - self._looked_at < INCIDENTS_EVERY:
            return
        self._looked_at = time.monotonic()
        self.incidents = {
            name: incident.number
            for incident in incidents_open()
            for name in incident.topologies.values_list("name", flat=True)
        }
        self._drop_earlier()
        for name, tracker in self._trackers.items():
            tracker.incident_set(name in self.incidents)
        self._accept()
        queries = Query.objects.filter(status=QueryStatus.FAILED)
        failed = {
            (name, partition_id(operator, index))
            for name, operator, index in queries.values_list(
                "topology__name", "partition__operator", "partition__index"
            )
        }
        for name, label in failed - self._failed:
            self._tracker(name).query_failed(label, time.time())
        self._failed = failed

    def _drop_earlier(self) -> None:
        """Latencies and failures of an earlier deployment say nothing of the present one."""
        rows = Topology.objects.filter(name__in=self._trackers)
        deployed = dict(rows.values_list("name", "deployed_at"))
        for name in [*self._trackers]:
            if name not in deployed or deployed[name] != self._deployed[name]:
                del self._trackers[name], self._deployed[name]

    def _tracker(self, topology: str) -> AvailabilityTracker:
        if topology not in self._trackers:
            stored = Query.objects.filter(
                topology__name=topology, baseline_latency__isnull=False
            ).select_related("partition")
            tracker = AvailabilityTracker(
                self._policy,
                baselines={query.partition.label: query.baseline_latency for query in stored},
            )
            tracker.incident_set(topology in self.incidents)
            self._trackers[topology] = tracker
            rows = Topology.objects.filter(name=topology)
            self._deployed[topology] = rows.values_list("deployed_at", flat=True).first()
        return self._trackers[topology]
