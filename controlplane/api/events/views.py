"""Snapshot, numbered events, operations and the audit trail over REST."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec
from django.db.models import QuerySet
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts.roles import ADMINISTRATOR, has_role
from controlplane.api.events.documents import document_answer
from controlplane.api.events.filtersets import AuditFilters, OperationFilters
from controlplane.api.events.serializers import (
    AuditChoicesSerializer,
    AuditEntrySerializer,
    EventPageSerializer,
    EventSerializer,
    OperationSerializer,
    RecentSerializer,
    SnapshotSerializer,
)
from controlplane.api.events.sharing import snapshot
from controlplane.api.listing import TupleListMixin
from controlplane.api.preconditions import ETAG, IF_NONE_MATCH, is_current, not_modified
from controlplane.api.views import RestView, RestViewSet
from controlplane.events.choices import EventKind
from controlplane.events.models import AuditEntry, Event, Operation
from controlplane.events.selectors import (
    audit_choices,
    audit_shown,
    event_list,
    event_position,
    operation_list,
)
from controlplane.snapshot.document import snapshot_end
from controlplane.snapshot.recent import recent_figures
from controlplane.tuple_rows import RAW, tuple_rows


class SnapshotView(RestView):
    """The state of everything, to be followed up with events after `sequence`."""

    @extend_schema(parameters=[IF_NONE_MATCH, ETAG], responses={200: SnapshotSerializer, 304: None})
    def get(self, request: Request) -> HttpResponseBase:
        """Weakly tagged with a sequence: while nothing has been published it is only asked for once."""
        # Read before the snapshot is: it may hold later events, never fewer than the tag says.
        position = event_position()[0]
        present = f'W/"{position}"'
        if is_current(request, present):
            return not_modified(present)
        response = document_answer(request, snapshot.get(position), snapshot_end())
        response["ETag"] = present
        return response


class RecentView(RestView):
    """The last latencies of queries and input rates of topologies, as sparklines show them."""

    @extend_schema(responses=RecentSerializer)
    def get(self, request: Request) -> HttpResponse:
        return document_answer(request, msgspec.json.encode(recent_figures()))


class EventParameters(serializers.Serializer):
    after = serializers.IntegerField(
        min_value=0, max_value=2**62, default=0, help_text="events with a higher sequence"
    )
    limit = serializers.IntegerField(min_value=1, max_value=1000, default=200)
    kind = serializers.ListField(
        child=serializers.ChoiceField(EventKind.choices), default=list, help_text="repeatable"
    )
    topology = serializers.CharField(default="")
    node = serializers.CharField(default="")
    incident = serializers.IntegerField(required=False, min_value=1, max_value=2**31 - 1)
    newest = serializers.BooleanField(
        default=False, help_text="the newest `limit` events instead of the first ones, still in order"
    )


class EventListView(RestView):
    """Numbered events by keyset: follow `next`, or ask again with the last sequence you have."""

    @extend_schema(parameters=[EventParameters], responses=EventPageSerializer)
    def get(self, request: Request) -> HttpResponse:
        names = EventParameters().fields
        given: dict[str, Any] = {
            name: request.query_params[name] for name in names if name in request.query_params
        }
        if "kind" in request.query_params:
            given["kind"] = request.query_params.getlist("kind")
        parameters = EventParameters(data=given)
        parameters.is_valid(raise_exception=True)
        chosen = parameters.validated_data
        last, trimmed = event_position()
        rows = event_list(after=chosen["after"])
        if chosen["kind"]:
            rows = rows.filter(kind__in=chosen["kind"])
        if chosen["topology"]:
            rows = rows.filter(topology=chosen["topology"])
        if chosen["node"]:
            rows = rows.filter(node=chosen["node"])
        if "incident" in chosen:
            rows = rows.filter(incident=chosen["incident"])
        limit = chosen["limit"]
        if chosen["newest"]:
            page = _read(rows.order_by("-sequence")[:limit])[::-1]
            more = False
        else:
            page = _read(rows[: limit + 1])
            more = len(page) > limit
            page = page[:limit]
        body = msgspec.json.encode(
            {
                "results": [row._asdict() for row in page],
                "next": self._next(request, page[-1].sequence) if more else None,
                "last_sequence": last,
                "trimmed_through": trimmed,
                "complete": chosen["after"] >= trimmed,
            }
        )
        return document_answer(request, body)

    @staticmethod
    def _next(request: Request, after: int) -> str:
        query = request.query_params.copy()
        query["after"] = str(after)
        return request.build_absolute_uri(f"{request.path}?{urlencode(list(_pairs(query)))}")


def _read(rows: QuerySet[Event]) -> list[Any]:
    """Rows with the columns of `EventSerializer`. What changed can be long: it passes through unread."""
    *columns, _ = EventSerializer.Meta.fields
    return [*tuple_rows(rows, *columns, json={"changes": RAW})]


def _pairs(query: Any) -> list[tuple[str, str]]:
    return [(name, value) for name, values in query.lists() for value in values]


class OperationViewSet(TupleListMixin, mixins.RetrieveModelMixin, RestViewSet):
    """Asynchronous actions and how they ended."""

    queryset = Operation.objects.none()
    serializer_class = OperationSerializer
    lookup_value_regex = "[0-9a-f-]{36}"
    filterset_class = OperationFilters
    ordering_fields = ("created_at", "ended_at")

    def get_queryset(self) -> Any:
        return operation_list()


@extend_schema_view(
    list=extend_schema(parameters=[OpenApiParameter("search", str, description="in target, action, reason")])
)
class AuditViewSet(TupleListMixin, mixins.RetrieveModelMixin, RestViewSet):
    """Who changed what, when, through which channel and why. Changes of accounts, of others' tokens and of
    webhooks are for administrators."""

    queryset = AuditEntry.objects.none()
    serializer_class = AuditEntrySerializer
    filterset_class = AuditFilters
    search_fields = ("target", "action", "reason")
    ordering_fields = ("at",)

    def get_queryset(self) -> Any:
        everything = has_role(self.request.user, ADMINISTRATOR)
        return audit_shown(reader=self.request.user.get_username(), everything=everything)

    @extend_schema(
        operation_id="audit_choices", responses=AuditChoicesSerializer, parameters=[], filters=False
    )
    @action(detail=False, methods=["get"], pagination_class=None, filter_backends=())
    def choices(self, request: Request) -> Response:
        """What occurs in the trail, for a filter to offer."""
        return Response(audit_choices(self.get_queryset()))
