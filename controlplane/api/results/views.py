"""`topologies/{topology}/queries/{query}/results/`: what a query has given."""

from __future__ import annotations

import msgspec
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.filtering import asked_of
from controlplane.api.requests import ErrorsSerializer
from controlplane.api.results.serializers import ResultsParameters, ResultsSerializer
from controlplane.api.views import RestView
from controlplane.results.asking import query_results


class ResultsView(RestView):
    """The newest rows of a query that count, page by page."""

    @extend_schema(
        operation_id="topologies_queries_results",
        parameters=[ResultsParameters],
        responses={200: ResultsSerializer, 409: ErrorsSerializer},
    )
    def get(self, request: Request, topology: str, query: str) -> Response:
        """Rows of committed epochs, newest first. A page stays the same whatever is written meanwhile."""
        found = query_results(topology=topology, query=query, **asked_of(request, ResultsParameters))
        return Response(msgspec.to_builtins(found))
