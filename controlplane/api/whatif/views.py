"""`POST what-if/`: simulated recoveries of the live system. Nothing is changed, so viewers may ask."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts.roles import VIEWER
from controlplane.api.requests import ErrorsSerializer
from controlplane.api.views import RestView
from controlplane.api.whatif.serializers import WhatIfAnswerSerializer, WhatIfSerializer
from controlplane.whatif.answering import what_if_answer


class WhatIfView(RestView):
    """Predicted availability if nodes or racks failed now."""

    write_role = VIEWER

    @extend_schema(
        operation_id="what_if",
        request=WhatIfSerializer,
        responses={200: WhatIfAnswerSerializer, 400: ErrorsSerializer, 409: ErrorsSerializer},
    )
    def post(self, request: Request) -> Response:
        """Simulate the failure once for each algorithm, with the same arrivals. Nothing is changed."""
        serializer = WhatIfSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        return Response(what_if_answer(serializer.question()))
