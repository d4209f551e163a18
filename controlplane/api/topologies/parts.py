"""What belongs to one topology, over REST: queries, partitions, versions, availability, problems."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import mixins
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.filtering import asked_of
from controlplane.api.health import HEALTHS, health_added, healths_of
from controlplane.api.listing import Lookups, Rows, TupleListMixin, rows_shown
from controlplane.api.preconditions import (
    ETAG,
    IF_MATCH,
    IF_NONE_MATCH,
    expected_of,
    is_current,
    not_modified,
    tagged,
)
from controlplane.api.requests import ErrorsSerializer, body_of, caller, changes_of
from controlplane.api.topologies.filtersets import (
    AvailabilityFilters,
    PartitionFilters,
    ProblemFilters,
    QueryFilters,
    TentativeFilters,
    TopologyProblemFilters,
)
from controlplane.api.topologies.part_serializers import (
    AvailabilitySampleSerializer,
    PartitionSerializer,
    PolicySerializer,
    PolicyUpdateSerializer,
    ProblemSerializer,
    QueryPrioritiesSerializer,
    QuerySerializer,
    QueryUpdateSerializer,
    SpecificationParameters,
    SpecificationSerializer,
    TentativePeriodSerializer,
    TopologyVersionSerializer,
)
from controlplane.api.views import RestView, RestViewSet
from controlplane.errors import Missing
from controlplane.lifecycle.recovery_terms import query_priorities_set, topology_policy_set
from controlplane.topologies.models import (
    AvailabilitySample,
    Partition,
    Problem,
    Query,
    TentativePeriod,
    Topology,
    TopologyVersion,
)
from controlplane.topologies.selectors import (
    availability_series,
    label_column,
    partition_list,
    problem_list,
    query_list,
    query_priorities,
    tentative_list,
    topology_get,
    topology_require,
    version_list,
)
from controlplane.topologies.tags import policy_tag, priorities_tag, specification_tag
from domain.topology import specification_text


class OfTopology(RestViewSet):
    """Views below ``topologies/{topology}/``; an unknown topology is 404, not an empty list."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        topology_require(kwargs["topology"])

    @property
    def topology(self) -> str:
        return str(self.kwargs.get("topology", ""))


class QueryViewSet(OfTopology, TupleListMixin):
    """The queries of a topology; priority is writable."""

    queryset = Query.objects.none()
    serializer_class = QuerySerializer
    lookup_field = "query"
    lookup_value_regex = r"[^/]+"
    filterset_class = QueryFilters
    tuple_lookups: ClassVar[Lookups] = {"partition": label_column("partition__")}
    search_fields = ("partition__operator",)
    ordering_fields = ("priority", "latency", "relative_latency", "status")

    def get_queryset(self) -> Any:
        return query_list(self.topology)

    def tuple_rows(self, rows: Any) -> Rows:
        found = rows_shown(rows, QuerySerializer, self.tuple_lookups, without=("health",))
        health_added("query", found, lambda row: f"{row['topology']}/{row['partition']}")
        return found

    @extend_schema(parameters=[ETAG])
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """All queries. The ETag is that of all priorities of the topology, whatever the filters."""
        response: Response = super().list(request, *args, **kwargs)
        response.headers["ETag"] = priorities_tag(self.topology, query_priorities(self.topology))
        return response

    @extend_schema(responses={200: QuerySerializer}, parameters=[ETAG])
    def retrieve(self, request: Request, topology: str, query: str) -> Response:
        return self._shown(query)

    @extend_schema(
        request=QueryUpdateSerializer,
        parameters=[IF_MATCH, ETAG],
        responses={200: QuerySerializer, 412: ErrorsSerializer},
    )
    def partial_update(self, request: Request, topology: str, query: str) -> Response:
        given = body_of(request, QueryUpdateSerializer)
        query_priorities_set(
            topology=topology,
            priorities={query: given["priority"]},
            reason=given["reason"],
            expected=expected_of(request),
            **caller(request),
        )
        return self._shown(query)

    @extend_schema(
        operation_id="topologies_queries_priorities",
        request=QueryPrioritiesSerializer,
        parameters=[IF_MATCH, ETAG],
        responses={200: QuerySerializer(many=True), 412: ErrorsSerializer},
    )
    def priorities(self, request: Request, topology: str) -> Response:
        """Set the priorities of several queries as one change."""
        given = body_of(request, QueryPrioritiesSerializer)
        rows = query_priorities_set(
            topology=topology,
            priorities=given["priorities"],
            reason=given["reason"],
            expected=expected_of(request),
            **caller(request),
        )
        tag = priorities_tag(topology, query_priorities(topology))
        healths = healths_of("query", [f"{topology}/{row.partition.label}" for row in rows])
        return tagged(QuerySerializer(rows, many=True, context={HEALTHS: healths}).data, tag)

    def _shown(self, label: str) -> Response:
        row = self._row(label)
        return tagged(QuerySerializer(row).data, priorities_tag(self.topology, {label: row.priority}))

    def _row(self, label: str) -> Query:
        for row in query_list(self.topology).filter(partition__operator=label.partition("[")[0]):
            if row.partition.label == label:
                return row
        raise Missing(f"topology {self.topology!r} has no query {label!r}")


class PolicyViewSet(OfTopology):
    """How the topology is recovered: method, planner, rollback, approval, correlation of failures."""

    queryset = Topology.objects.none()
    serializer_class = PolicySerializer

    @extend_schema(
        operation_id="topologies_policy_retrieve",
        parameters=[IF_NONE_MATCH, ETAG],
        responses={200: PolicySerializer, 304: None},
    )
    def retrieve(self, request: Request, topology: str) -> Response:
        row = topology_get(topology, spec=False)
        tag = policy_tag(row)
        return not_modified(tag) if is_current(request, tag) else tagged(PolicySerializer(row).data, tag)

    @extend_schema(
        operation_id="topologies_policy_update",
        request=PolicyUpdateSerializer,
        parameters=[IF_MATCH, ETAG],
        responses={200: PolicySerializer, 412: ErrorsSerializer},
    )
    def partial_update(self, request: Request, topology: str) -> Response:
        """Change some of it, also in the middle of an incident."""
        row = topology_policy_set(name=topology, **changes_of(request, PolicyUpdateSerializer))
        return tagged(PolicySerializer(row).data, policy_tag(row))


class PartitionViewSet(OfTopology, TupleListMixin):
    """Where every partition runs and how it does."""

    queryset = Partition.objects.none()
    serializer_class = PartitionSerializer
    tuple_lookups: ClassVar[Lookups] = {"partition": label_column()}
    filterset_class = PartitionFilters
    ordering_fields = ("operator", "index", "cpu", "rows_in_rate", "rows_out_rate", "state_bytes", "state")

    def get_queryset(self) -> Any:
        return partition_list(self.topology)


class VersionViewSet(OfTopology, TupleListMixin):
    """Every accepted specification, newest first."""

    queryset = TopologyVersion.objects.none()
    serializer_class = TopologyVersionSerializer
    ordering_fields = ("number",)

    def get_queryset(self) -> Any:
        return version_list(self.topology)


class SpecificationView(RestView):
    """The newest specification of a topology, or an older one, as text to be edited."""

    @extend_schema(
        operation_id="topologies_specification",
        parameters=[SpecificationParameters, ETAG],
        responses={200: SpecificationSerializer, 404: ErrorsSerializer},
    )
    def get(self, request: Request, topology: str) -> Response:
        """The ETag is that of the newest version, which `PUT topologies/{t}/` asks for."""
        given = asked_of(request, SpecificationParameters)
        row = topology_get(topology)
        number = given.get("version") or row.version
        older = None if number == row.version else version_list(topology).filter(number=number).first()
        if number != row.version and older is None:
            raise Missing(f"topology {topology!r} has no version {number}")
        text = specification_text(row.spec if older is None else older.spec)
        written = {"name": topology, "version": number, "text": text}
        return tagged(SpecificationSerializer(written).data, specification_tag(row))


class AvailabilityViewSet(OfTopology, TupleListMixin):
    """How many queries were available, over time."""

    queryset = AvailabilitySample.objects.none()
    serializer_class = AvailabilitySampleSerializer
    filterset_class = AvailabilityFilters
    ordering_fields = ("at",)

    def get_queryset(self) -> Any:
        return availability_series(self.topology)


class TentativeViewSet(OfTopology, TupleListMixin):
    """When queries went on without a part of their input, and what became of these rows; newest first."""

    queryset = TentativePeriod.objects.none()
    serializer_class = TentativePeriodSerializer
    filterset_class = TentativeFilters
    ordering_fields = ("began_at", "query")

    def get_queryset(self) -> Any:
        return tentative_list(self.topology)


class TopologyProblemViewSet(OfTopology, TupleListMixin):
    """What went wrong in this topology and what to do about it."""

    queryset = Problem.objects.none()
    serializer_class = ProblemSerializer
    filterset_class = TopologyProblemFilters
    ordering_fields = ("at", "count")

    def get_queryset(self) -> Any:
        return problem_list().filter(topology__name=self.topology)


class ProblemViewSet(TupleListMixin, mixins.RetrieveModelMixin, RestViewSet):
    """What went wrong anywhere."""

    queryset = Problem.objects.none()
    serializer_class = ProblemSerializer
    filterset_class = ProblemFilters
    search_fields = ("where", "what", "hint")
    ordering_fields = ("at", "count")

    def get_queryset(self) -> Any:
        return problem_list()
