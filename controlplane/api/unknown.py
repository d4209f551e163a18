"""The answer for addresses under ``/api/v1/`` that mean nothing."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.views import APIView

from controlplane.errors import Missing


class UnknownView(APIView):
    schema = None
    authentication_classes = ()
    permission_classes = ()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        raise Missing(f"there is nothing at {request.path}; see /api/v1/docs/")
