"""`measurements/` of a topology, of its queries and operators, and of nodes."""

from __future__ import annotations

from collections.abc import Callable

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.filtering import asked_of
from controlplane.api.measurements.serializers import CourseParameters, CourseSerializer
from controlplane.api.requests import ErrorsSerializer
from controlplane.api.views import RestView
from controlplane.measurements.selectors import Course, topology_course


class MeasurementsView(RestView):
    """Figures over time of what its address names."""

    course_of: Callable[..., Course] = staticmethod(topology_course)
    """Takes what the address names, and the time."""

    @extend_schema(
        parameters=[CourseParameters],
        responses={200: CourseSerializer, 404: ErrorsSerializer},
    )
    def get(self, request: Request, **named: str) -> Response:
        """Mean, lowest and highest value by bucket. The older the time, the longer the buckets."""
        return Response(CourseSerializer(self.course_of(**named, **asked_of(request, CourseParameters))).data)
