"""`topologies/{topology}/replication-plan/`, which is advice, and `replicas/`, which run."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.filtering import asked_of
from controlplane.api.preconditions import ETAG, IF_MATCH, tagged
from controlplane.api.replication.serializers import (
    ReplicasSerializer,
    ReplicasUpdateSerializer,
    ReplicationPlanSerializer,
    ReplicationQuestionSerializer,
)
from controlplane.api.requests import ErrorsSerializer, changes_of
from controlplane.api.views import RestView
from controlplane.lifecycle.recovery_terms import topology_policy_set
from controlplane.replication.answering import replication_plan_answer
from controlplane.replication.showing import replicas_answer
from controlplane.topologies.selectors import topology_get
from controlplane.topologies.tags import policy_tag


class ReplicationPlanView(RestView):
    """Which partitions are worth an active replica, and what the queries would still give."""

    @extend_schema(
        operation_id="topologies_replication_plan",
        parameters=[ReplicationQuestionSerializer],
        responses={200: ReplicationPlanSerializer},
    )
    def get(self, request: Request, topology: str) -> Response:
        """From the rates of the last epoch, at most ten seconds ago."""
        answer = replication_plan_answer(topology, **asked_of(request, ReplicationQuestionSerializer))
        return Response(ReplicationPlanSerializer(answer).data)


class ReplicasView(RestView):
    """Which partitions have a replica, where, how far it is, and what the loss of a node would take."""

    @extend_schema(
        operation_id="topologies_replicas_retrieve", parameters=[ETAG], responses={200: ReplicasSerializer}
    )
    def get(self, request: Request, topology: str) -> Response:
        """The ETag is that of the policy."""
        return self._shown(topology)

    @extend_schema(
        operation_id="topologies_replicas_update",
        request=ReplicasUpdateSerializer,
        parameters=[IF_MATCH, ETAG],
        responses={200: ReplicasSerializer, 412: ErrorsSerializer},
    )
    def patch(self, request: Request, topology: str) -> Response:
        """Change what the policy says of replicas; they come and go within the next looks."""
        given = changes_of(request, ReplicasUpdateSerializer)
        changes = {f"replication_{field}": value for field, value in given.pop("changes").items()}
        topology_policy_set(name=topology, changes=changes, **given)
        return self._shown(topology)

    def _shown(self, topology: str) -> Response:
        answer = ReplicasSerializer(replicas_answer(topology)).data
        return tagged(answer, policy_tag(topology_get(topology, spec=False)))
