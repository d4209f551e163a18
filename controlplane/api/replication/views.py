"""`GET topologies/{topology}/replication-plan/`. Nothing is changed, and nothing is replicated."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.api.replication.serializers import ReplicationPlanSerializer, ReplicationQuestionSerializer
from controlplane.replication.answering import replication_plan_answer


class ReplicationPlanView(APIView):
    """Which partitions are worth an active replica, and what the queries would still give."""

    @extend_schema(
        operation_id="topologies_replication_plan",
        parameters=[ReplicationQuestionSerializer],
        responses={200: ReplicationPlanSerializer},
    )
    def get(self, request: Request, topology: str) -> Response:
        """From the rates of the last epoch, at most ten seconds ago."""
        question = ReplicationQuestionSerializer(data=request.query_params.dict())
        question.is_valid(raise_exception=True)
        answer = replication_plan_answer(topology, **question.validated_data)
        return Response(ReplicationPlanSerializer(answer).data)
