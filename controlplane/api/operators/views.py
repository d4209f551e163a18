"""`topologies/{topology}/operators/{operator}/`: one operator, and what is known of it."""

from __future__ import annotations

from typing import Any

import msgspec
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.accounts.roles import OPERATOR
from controlplane.api.filtering import parameters_require
from controlplane.api.operators.serializers import (
    LogParameters,
    OperatorLogSerializer,
    OperatorProblemSerializer,
    OperatorRowsSerializer,
    OperatorSerializer,
    RowsParameters,
)
from controlplane.api.requests import ErrorsSerializer
from controlplane.operators.describing import operator_describe
from controlplane.operators.logs import operator_log
from controlplane.operators.problems import operator_problems
from controlplane.results.samples import operator_rows


class OperatorView(APIView):
    """How an operator is configured."""

    @extend_schema(operation_id="topologies_operators_retrieve", responses={200: OperatorSerializer})
    def get(self, request: Request, topology: str, operator: str) -> Response:
        """Parameters from the specification, and the columns of what it gets and gives, as far as known."""
        parameters_require(request, ())
        return Response(msgspec.to_builtins(operator_describe(topology=topology, operator=operator)))


class OperatorLogView(APIView):
    """The logs of the processes that an operator runs in."""

    read_role = OPERATOR
    """They may hold data."""

    @extend_schema(
        operation_id="topologies_operators_log",
        parameters=[LogParameters],
        responses={200: OperatorLogSerializer},
    )
    def get(self, request: Request, topology: str, operator: str) -> Response:
        """The end of the driver's log and of those of the nodes that have the operator's partitions."""
        asked = _parameters(request, LogParameters)
        found = operator_log(topology=topology, operator=operator, **asked)
        return Response(msgspec.to_builtins(found))


class OperatorProblemsView(APIView):
    """The problems of one operator."""

    read_role = OPERATOR
    """Rows are data. Viewers read problems without them at `problems/`."""

    @extend_schema(
        operation_id="topologies_operators_problems", responses={200: OperatorProblemSerializer(many=True)}
    )
    def get(self, request: Request, topology: str, operator: str) -> Response:
        """At most 100, the newest first, each with the row that caused it, or what is known of it."""
        parameters_require(request, ())
        return Response(msgspec.to_builtins(operator_problems(topology=topology, operator=operator)))


class OperatorRowsView(APIView):
    """The last rows of one operator."""

    read_role = OPERATOR
    """Rows between operators are data that no result shows."""

    @extend_schema(
        operation_id="topologies_operators_rows",
        parameters=[RowsParameters],
        responses={200: OperatorRowsSerializer, 409: ErrorsSerializer},
    )
    def get(self, request: Request, topology: str, operator: str) -> Response:
        """Results of an output operator. Of any other, rows are kept for half a minute after each request."""
        asked = _parameters(request, RowsParameters)
        found = operator_rows(topology=topology, operator=operator, **asked)
        return Response(msgspec.to_builtins(found))


def _parameters(request: Request, kind: type[serializers.Serializer]) -> dict[str, Any]:
    """What the query says, checked. Raises `ValidationError`, also for what means nothing here."""
    names = kind().fields
    parameters_require(request, names)
    given = {name: request.query_params[name] for name in names if name in request.query_params}
    parameters = kind(data=given)
    parameters.is_valid(raise_exception=True)
    found: dict[str, Any] = parameters.validated_data
    return found
