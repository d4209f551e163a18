"""Topologies over REST: `topologies/` and the actions on one."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import mixins, serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.mediatypes import media_type_matches

from controlplane.api.actions import ActionsMixin, action_schema
from controlplane.api.filtering import asked_of
from controlplane.api.health import HEALTHS, healths_of
from controlplane.api.idempotency import once
from controlplane.api.parsers import PlainJSONParser, YamlSpecificationParser
from controlplane.api.preconditions import ETAG, IF_MATCH, IF_MATCH_REQUIRED, expected_of, tagged
from controlplane.api.requests import IDEMPOTENCY_KEY, REASON, ErrorsSerializer, body_of, caller, told_of
from controlplane.api.topologies.filtersets import TopologyFilters
from controlplane.api.topologies.serializers import (
    ContinuationSerializer,
    DeploySerializer,
    ParkSerializer,
    PipelineSerializer,
    RestoreSerializer,
    TopologyCreateSerializer,
    TopologyDeleteSerializer,
    TopologyDetailSerializer,
    TopologySerializer,
    TopologySourceSerializer,
    TopologyUpdateSerializer,
    UnparkSerializer,
    VerdictSerializer,
)
from controlplane.api.views import RestView, RestViewSet
from controlplane.events.choices import OperationKind
from controlplane.lifecycle.continuing import continuation_told
from controlplane.lifecycle.parking import topology_park, topology_unpark
from controlplane.lifecycle.topologies import (
    topology_action,
    topology_deploy,
    topology_restore,
    topology_undeploy,
)
from controlplane.topologies.choices import Outputs, Start
from controlplane.topologies.models import Topology
from controlplane.topologies.selectors import topology_get, topology_list, topology_written
from controlplane.topologies.services import topology_create, topology_delete, topology_update
from controlplane.topologies.submission import specification_check, specification_compose
from controlplane.topologies.tags import specification_tag
from controlplane.topologies.validation import (
    lines_known,
    pipeline_names,
    pipeline_read,
    pipeline_text,
    spec_read,
)

ACTION = action_schema()
IN_YAML = "with a YAML body, which is the specification itself; a JSON body has a field for it"
SOURCE_IN_QUERY = [
    OpenApiParameter("name", OpenApiTypes.STR, description=IN_YAML),
    OpenApiParameter("input", OpenApiTypes.STR, description=IN_YAML),
    OpenApiParameter("rate", OpenApiTypes.INT, description=IN_YAML),
    OpenApiParameter("limit", OpenApiTypes.INT, description=IN_YAML),
    OpenApiParameter("arrivals", OpenApiTypes.STR, description=IN_YAML),
    OpenApiParameter("speedup", OpenApiTypes.FLOAT, description=IN_YAML),
]
OUTPUTS = OpenApiParameter(
    "outputs", enum=list(Outputs.values), description="kept under another name (the default), or removed"
)
REASON_IN_QUERY = OpenApiParameter("reason", OpenApiTypes.STR, description=IN_YAML)


DESCRIBED = ("create", "update", "validate")
"""Actions whose body may be the specification itself."""


class ContinuationParameters(serializers.Serializer):
    savepoint = serializers.CharField(
        required=False, help_text="the name of one; without it, the newest checkpoint"
    )


def in_yaml_too(serializer: type[serializers.Serializer]) -> dict[str, Any]:
    return {"application/json": serializer, "application/yaml": OpenApiTypes.ANY}


@extend_schema_view(
    list=extend_schema(responses=TopologySerializer(many=True)),
    retrieve=extend_schema(responses=TopologyDetailSerializer, parameters=[ETAG]),
)
class TopologyViewSet(ActionsMixin, mixins.ListModelMixin, RestViewSet):
    """Topologies by name."""

    queryset = Topology.objects.none()
    parser_classes = (PlainJSONParser, YamlSpecificationParser)
    lookup_field = "name"
    lookup_value_regex = "[A-Za-z0-9_-]+"
    filterset_class = TopologyFilters
    search_fields = ("name",)
    ordering_fields = (
        "name",
        "status",
        "input_rate",
        "load",
        "deployed_at",
        "queries_available",
        "worst_relative_latency",
    )

    def parameters_known(self, request: Request, handler: Any) -> dict[str, bool]:
        in_yaml = media_type_matches(YamlSpecificationParser.media_type, request.content_type)
        if self.action in DESCRIBED and not in_yaml:
            return {}
        return super().parameters_known(request, handler)

    def get_queryset(self) -> Any:
        rows = topology_list()
        return rows.defer("spec") if self.action == "list" else rows

    def get_serializer(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs.get("many"):
            return super().get_serializer(*args, **kwargs)
        healths = healths_of("topology", [row.name for row in args[0]])
        serializer = super().get_serializer([row for row in args[0] if row.name in healths], **kwargs)
        serializer.context[HEALTHS] = healths
        return serializer

    def get_serializer_class(self) -> Any:
        return TopologySerializer if self.action == "list" else TopologyDetailSerializer

    @extend_schema(
        request=in_yaml_too(TopologyCreateSerializer),
        parameters=[*SOURCE_IN_QUERY, REASON_IN_QUERY, IDEMPOTENCY_KEY, ETAG],
        responses={201: TopologyDetailSerializer, 409: ErrorsSerializer},
    )
    def create(self, request: Request) -> Response:
        """Accept a specification as a new topology. Nothing runs until it is deployed."""
        given = body_of(request, TopologyCreateSerializer)

        def create() -> Response:
            with lines_known(given):
                topology = topology_create(
                    spec=specification_compose(given), reason=given["reason"], **caller(request)
                )
            response = self._detail(topology.name, code=status.HTTP_201_CREATED)
            response.headers["Location"] = f"/api/v1/topologies/{topology.name}/"
            return response

        return once(request, create)

    def retrieve(self, request: Request, name: str) -> Response:
        return self._detail(name)

    @extend_schema(
        request=in_yaml_too(TopologyUpdateSerializer),
        parameters=[REASON_IN_QUERY, IF_MATCH_REQUIRED, ETAG],
        responses={
            200: TopologyDetailSerializer,
            409: ErrorsSerializer,
            412: ErrorsSerializer,
            428: ErrorsSerializer,
        },
    )
    def update(self, request: Request, name: str) -> Response:
        """Replace the whole specification; only while the topology is not deployed."""
        given = body_of(request, TopologyUpdateSerializer)
        with lines_known(given):
            topology_update(
                name=name,
                spec=spec_read(given["spec"]),
                reason=given["reason"],
                expected=expected_of(request, required=True),
                **caller(request),
            )
        return self._detail(name)

    @extend_schema(
        parameters=[REASON, OUTPUTS, IF_MATCH],
        responses={204: None, 409: ErrorsSerializer, 412: ErrorsSerializer},
    )
    def destroy(self, request: Request, name: str) -> Response:
        """Remove it with its history and checkpoints; only while it is not deployed."""
        told = told_of(request, TopologyDeleteSerializer)
        topology_delete(
            name=name,
            outputs=Outputs(told["outputs"]),
            reason=told["reason"],
            expected=expected_of(request),
            **caller(request),
        )
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(
        request=in_yaml_too(TopologySourceSerializer),
        parameters=SOURCE_IN_QUERY,
        responses={200: VerdictSerializer},
        filters=False,
    )
    @action(detail=False, methods=["post"], pagination_class=None)
    def validate(self, request: Request) -> Response:
        """Say everything that is wrong with a specification, each fault with its path. Changes nothing."""
        found = specification_check(body_of(request, TopologySourceSerializer))
        return Response(VerdictSerializer(found).data)

    @action_schema(DeploySerializer)
    @action(detail=True, methods=["post"])
    def deploy(self, request: Request, name: str) -> Response:
        """Start the newest version: from nothing, from the newest checkpoint, or from a savepoint."""
        given = body_of(request, DeploySerializer)
        return self.act(
            request,
            topology_deploy,
            name=name,
            start=Start(given["start"]),
            savepoint=given.get("savepoint", ""),
            reason=given["reason"],
        )

    @extend_schema(
        parameters=[ContinuationParameters],
        responses={200: ContinuationSerializer, 404: ErrorsSerializer},
        filters=False,
    )
    @action(detail=True, methods=["get"], pagination_class=None)
    def continuation(self, request: Request, name: str) -> Response:
        """What the newest version would go on with if it were deployed from the newest checkpoint, or from a
        savepoint."""
        told = continuation_told(topology_get(name), **asked_of(request, ContinuationParameters))
        return Response(ContinuationSerializer(told).data)

    @ACTION
    @action(detail=True, methods=["post"])
    def undeploy(self, request: Request, name: str) -> Response:
        """Stop at the next epoch boundary, with a checkpoint of all that is committed if all is well."""
        return self.act(request, topology_undeploy, name=name)

    @ACTION
    @action(detail=True, methods=["post"])
    def checkpoint(self, request: Request, name: str) -> Response:
        """Take a global checkpoint at the next epoch boundary."""
        return self.act(request, topology_action, kind=OperationKind.TOPOLOGY_CHECKPOINT, name=name)

    @ACTION
    @action(detail=True, methods=["post"])
    def recover(self, request: Request, name: str) -> Response:
        """Recover now, without waiting for detection."""
        return self.act(request, topology_action, kind=OperationKind.TOPOLOGY_RECOVER, name=name)

    @ACTION
    @action(detail=True, methods=["post"])
    def rebalance(self, request: Request, name: str) -> Response:
        """Move partitions that run, with their state, so that the nodes are used evenly. No query waits.

        The operation fails, and says so, where no move would make epochs shorter.
        """
        return self.act(request, topology_action, kind=OperationKind.TOPOLOGY_REBALANCE, name=name)

    @ACTION
    @action(detail=True, methods=["post"])
    def verify(self, request: Request, name: str) -> Response:
        """Recompute the outputs from the original input, up to the last committed epoch, and compare.

        The operation succeeds where every query that can be compared is exact. Its `result` says how many
        are, and of the others what is wrong. The engine's operators are not used; the topology goes on.

        Where the guarantee is bounded it also succeeds with queries that are not exact: `deviation` is the
        share of the expected rows that are missing, wrong or too many, and `deviating` says more of each of
        these queries.
        """
        return self.act(request, topology_action, kind=OperationKind.TOPOLOGY_VERIFY, name=name)

    @action_schema(RestoreSerializer)
    @action(detail=True, methods=["post"])
    def restore(self, request: Request, name: str) -> Response:
        """Put all of it back to a checkpoint that is still in storage, and replay from there."""
        return self.act(request, topology_restore, name=name, **body_of(request, RestoreSerializer))

    @action_schema(ParkSerializer)
    @action(detail=True, methods=["post"])
    def park(self, request: Request, name: str) -> Response:
        """Stop queries, so that others have their room. They return exactly, from the newest checkpoint.

        The incident that this opens stays open, and no checkpoint completes, until all are unparked. Where
        the guarantee is bounded they return without what came meanwhile.
        """
        return self.act(request, topology_park, name=name, **body_of(request, ParkSerializer))

    @action_schema(UnparkSerializer)
    @action(detail=True, methods=["post"])
    def unpark(self, request: Request, name: str) -> Response:
        """Let parked queries return as soon as there is room."""
        return self.act(request, topology_unpark, name=name, **body_of(request, UnparkSerializer))

    @ACTION
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, name: str) -> Response:
        """Take no new input until resumed."""
        return self.act(request, topology_action, kind=OperationKind.TOPOLOGY_PAUSE, name=name)

    @ACTION
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, name: str) -> Response:
        """Go on after a pause."""
        return self.act(request, topology_action, kind=OperationKind.TOPOLOGY_RESUME, name=name)

    @staticmethod
    def _detail(name: str, *, code: int = status.HTTP_200_OK) -> Response:
        topology = topology_written(name)
        return tagged(TopologyDetailSerializer(topology).data, specification_tag(topology), code=code)


class PipelineListView(RestView):
    """Ready-made pipelines, for `pipeline` when a topology is created."""

    @extend_schema(responses=PipelineSerializer(many=True))
    def get(self, request: Request) -> Response:
        specs = {name: pipeline_read(name) for name in pipeline_names()}
        return Response(
            [
                {
                    "name": name,
                    "description": spec.get("description", ""),
                    "spec": spec,
                    "text": pipeline_text(name),
                }
                for name, spec in specs.items()
            ]
        )
