"""The answer for addresses under ``/api/v1/`` that mean nothing."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.views import APIView

from controlplane.accounts.roles import VIEWER
from controlplane.errors import Missing


class UnknownView(APIView):
    """A client that is not signed in does not even learn which addresses there are."""

    schema = None
    write_role = VIEWER

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        raise Missing(f"there is nothing at {request.path}; see /api/v1/docs/")
