"""`topologies/{topology}/operators/{operator}/`: one operator, and what is known of it."""

from __future__ import annotations

import msgspec
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts.roles import OPERATOR
from controlplane.api.filtering import asked_of
from controlplane.api.operators.serializers import (
    LogParameters,
    OperatorLogSerializer,
    OperatorProblemSerializer,
    OperatorRowsSerializer,
    OperatorSerializer,
    RowsParameters,
)
from controlplane.api.requests import ErrorsSerializer
from controlplane.api.views import RestView
from controlplane.operators.describing import operator_describe
from controlplane.operators.logs import operator_log
from controlplane.operators.problems import operator_problems
from controlplane.results.samples import operator_rows


class OperatorView(RestView):
    """How an operator is configured."""

    @extend_schema(operation_id="topologies_operators_retrieve", responses={200: OperatorSerializer})
    def get(self, request: Request, topology: str, operator: str) -> Response:
        """Parameters from the specification, and the columns of what it gets and gives, as far as known."""
        return Response(msgspec.to_builtins(operator_describe(topology=topology, operator=operator)))


class OperatorLogView(RestView):
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
        asked = asked_of(request, LogParameters)
        found = operator_log(topology=topology, operator=operator, **asked)
        return Response(msgspec.to_builtins(found))


class OperatorProblemsView(RestView):
    """The problems of one operator."""

    read_role = OPERATOR
    """Rows are data. Viewers read problems without them at `problems/`."""

    @extend_schema(
        operation_id="topologies_operators_problems", responses={200: OperatorProblemSerializer(many=True)}
    )
    def get(self, request: Request, topology: str, operator: str) -> Response:
        """At most 100, the newest first, each with the row that caused it, or what is known of it."""
        return Response(msgspec.to_builtins(operator_problems(topology=topology, operator=operator)))


class OperatorRowsView(RestView):
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
        asked = asked_of(request, RowsParameters)
        found = operator_rows(topology=topology, operator=operator, **asked)
        return Response(msgspec.to_builtins(found))
