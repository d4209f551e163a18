"""`topologies/{topology}/operators/{operator}/`: one operator, and what is known of it."""

from __future__ import annotations

import msgspec
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.api.filtering import parameters_require
from controlplane.api.operators.serializers import OperatorSerializer
from controlplane.operators.describing import operator_describe


class OperatorView(APIView):
    """How an operator is configured."""

    @extend_schema(operation_id="topologies_operators_retrieve", responses={200: OperatorSerializer})
    def get(self, request: Request, topology: str, operator: str) -> Response:
        """Parameters from the specification, and the columns of what it gets and gives, as far as known."""
        parameters_require(request, ())
        return Response(msgspec.to_builtins(operator_describe(topology=topology, operator=operator)))
