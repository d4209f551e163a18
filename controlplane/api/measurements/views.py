"""`measurements/` of a topology, of its queries and operators, and of nodes."""

from __future__ import annotations

from datetime import datetime

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.api.filtering import asked_of
from controlplane.api.measurements.serializers import CourseParameters, CourseSerializer
from controlplane.api.requests import ErrorsSerializer
from controlplane.measurements.selectors import (
    Course,
    node_course,
    operator_course,
    query_course,
    topology_course,
)


def asked(request: Request) -> tuple[datetime, datetime]:
    given = asked_of(request, CourseParameters)
    return given["since"], given["until"]


def shown(course: Course) -> Response:
    return Response(CourseSerializer(course).data)


class TopologyMeasurementsView(APIView):
    """Input, load, lag and availability of a topology over time."""

    @extend_schema(
        operation_id="topologies_measurements",
        parameters=[CourseParameters],
        responses={200: CourseSerializer, 404: ErrorsSerializer},
    )
    def get(self, request: Request, topology: str) -> Response:
        """The older the time that is asked for, the longer the buckets."""
        since, until = asked(request)
        return shown(topology_course(topology, since=since, until=until))


class QueryMeasurementsView(APIView):
    """Latency of a query over time."""

    @extend_schema(
        operation_id="topologies_queries_measurements",
        parameters=[CourseParameters],
        responses={200: CourseSerializer, 404: ErrorsSerializer},
    )
    def get(self, request: Request, topology: str, query: str) -> Response:
        """The older the time that is asked for, the longer the buckets."""
        since, until = asked(request)
        return shown(query_course(topology, query, since=since, until=until))


class OperatorMeasurementsView(APIView):
    """Rates, CPU and state of an operator over time, all its partitions together."""

    @extend_schema(
        operation_id="topologies_operators_measurements",
        parameters=[CourseParameters],
        responses={200: CourseSerializer, 404: ErrorsSerializer},
    )
    def get(self, request: Request, topology: str, operator: str) -> Response:
        """The older the time that is asked for, the longer the buckets."""
        since, until = asked(request)
        return shown(operator_course(topology, operator, since=since, until=until))


class NodeMeasurementsView(APIView):
    """CPU of a node over time, measured and expected."""

    @extend_schema(
        operation_id="nodes_measurements",
        parameters=[CourseParameters],
        responses={200: CourseSerializer, 404: ErrorsSerializer},
    )
    def get(self, request: Request, name: str) -> Response:
        """The older the time that is asked for, the longer the buckets."""
        since, until = asked(request)
        return shown(node_course(name, since=since, until=until))
