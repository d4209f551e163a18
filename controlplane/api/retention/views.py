"""What is kept, and within which bounds."""

from __future__ import annotations

from dataclasses import asdict

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.views import RestView
from controlplane.retention.selectors import retention_state

UNITS = ("rows", "MB")


class KeptSerializer(serializers.Serializer):
    """One kind of rows, the logs, or the outputs of a topology: its bounds and what it holds now."""

    name = serializers.CharField()
    title = serializers.CharField()
    variable = serializers.CharField(help_text="what sets the bounds: an environment variable, or the sink")
    unit = serializers.ChoiceField(UNITS, help_text="of `size`")
    age = serializers.FloatField(help_text="bound, in seconds; 0 for none")
    size = serializers.IntegerField(help_text="bound, in `unit`; 0 for none")
    rows = serializers.IntegerField(
        help_text="those that may go once they are out of bounds; where `unit` is MB: files"
    )
    bytes = serializers.IntegerField(
        allow_null=True,
        help_text="of the table with its indexes, which kinds of one table share; null where the database "
        "does not say",
    )
    oldest = serializers.DateTimeField(allow_null=True)


class RetentionView(RestView):
    """What this installation keeps (``RESURGE_KEEP_*``), and what there is of it now; at most half a minute
    old."""

    @extend_schema(responses=KeptSerializer(many=True))
    def get(self, request: Request) -> Response:
        return Response(KeptSerializer([asdict(one) for one in retention_state()], many=True).data)
