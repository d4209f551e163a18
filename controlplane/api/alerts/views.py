"""Alerts, the rules they come of, and silences, over REST."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import mixins, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts.roles import ADMINISTRATOR
from controlplane.alerts.export.grafana import grafana_dashboard
from controlplane.alerts.export.prometheus import prometheus_rules
from controlplane.alerts.models import Alert, AlertRule, Silence
from controlplane.alerts.selectors import alert_list, rule_get, rule_list, silence_get, silence_list
from controlplane.alerts.services import rule_create, rule_delete, rule_update
from controlplane.alerts.silencing import silence_create, silence_end
from controlplane.alerts.tags import rule_tag, silence_tag
from controlplane.api.alerts.filtersets import AlertFilters, RuleFilters, SilenceFilters
from controlplane.api.alerts.renderers import GrafanaRenderer, PrometheusRenderer
from controlplane.api.alerts.serializers import (
    AlertSerializer,
    RuleCreateSerializer,
    RuleSerializer,
    RuleUpdateSerializer,
    SilenceCreateSerializer,
    SilenceSerializer,
)
from controlplane.api.idempotency import once
from controlplane.api.preconditions import ETAG, IF_MATCH, expected_of, tagged
from controlplane.api.renderers import FastJSONRenderer
from controlplane.api.requests import (
    IDEMPOTENCY_KEY,
    REASON,
    ErrorsSerializer,
    ReasonSerializer,
    body_of,
    caller,
    changes_of,
    reason_of,
)
from controlplane.api.views import RestViewSet

FORMAT = OpenApiParameter(
    "format", OpenApiTypes.STR, enum=("prometheus", "grafana"), description="instead of an Accept header"
)
REFUSED = {400: ErrorsSerializer, 404: ErrorsSerializer, 409: ErrorsSerializer}
STALE = {412: ErrorsSerializer}


class AlertViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, RestViewSet):
    """Alerts that go on and those that have ended, newest first."""

    queryset = Alert.objects.none()
    serializer_class = AlertSerializer
    lookup_value_regex = r"\d{1,18}"
    filterset_class = AlertFilters
    search_fields = ("rule", "topology", "query")
    ordering_fields = ("since", "fired_at", "resolved_at", "severity", "rule")

    def get_queryset(self) -> Any:
        return alert_list()


class AlertRuleViewSet(mixins.ListModelMixin, RestViewSet):
    """Rules by name. Administrators change them."""

    queryset = AlertRule.objects.none()
    serializer_class = RuleSerializer
    lookup_field = "name"
    lookup_value_regex = "[a-z][a-z0-9-]*"
    write_role = ADMINISTRATOR
    filterset_class = RuleFilters
    search_fields = ("name",)
    ordering_fields = ("name", "severity", "updated_at")

    def get_queryset(self) -> Any:
        return rule_list()

    @extend_schema(responses=RuleSerializer, parameters=[ETAG])
    def retrieve(self, request: Request, name: str) -> Response:
        return _rule(rule_get(name))

    @extend_schema(
        request=RuleCreateSerializer,
        parameters=[IDEMPOTENCY_KEY, ETAG],
        responses={201: RuleSerializer, 400: ErrorsSerializer, 409: ErrorsSerializer},
    )
    def create(self, request: Request) -> Response:
        """Make a rule. It is looked at every five seconds from now on."""
        given = body_of(request, RuleCreateSerializer)

        def create() -> Response:
            rule = rule_create(**given, **caller(request))
            response = _rule(rule, code=status.HTTP_201_CREATED)
            response.headers["Location"] = f"/api/v1/alert-rules/{rule.name}/"
            return response

        return once(request, create)

    @extend_schema(
        operation_id="alert_rules_export",
        parameters=[FORMAT],
        responses={
            (200, "application/yaml"): OpenApiTypes.OBJECT,
            (200, "application/json"): OpenApiTypes.OBJECT,
            404: ErrorsSerializer,
        },
        filters=False,
    )
    @action(
        detail=False,
        methods=["get"],
        renderer_classes=[PrometheusRenderer, GrafanaRenderer],
        pagination_class=None,
        filterset_class=None,
        search_fields=(),
        ordering_fields=(),
    )
    def export(self, request: Request) -> Response:
        """The rules that are on, as alerting rules of Prometheus or as a dashboard of Grafana."""
        kind = request.accepted_renderer.format
        text = prometheus_rules(rule_list()) if kind == "prometheus" else grafana_dashboard(rule_list())
        name = "resurge.rules.yaml" if kind == "prometheus" else "resurge.dashboard.json"
        response = Response(text)
        response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
        return response

    def handle_exception(self, exc: Exception) -> Response:
        # What goes wrong has the form it has everywhere.
        self.request.accepted_renderer = FastJSONRenderer()
        self.request.accepted_media_type = FastJSONRenderer.media_type
        response: Response = super().handle_exception(exc)
        return response

    @extend_schema(
        request=RuleUpdateSerializer,
        parameters=[IF_MATCH, ETAG],
        responses={200: RuleSerializer, **REFUSED, **STALE},
    )
    def partial_update(self, request: Request, name: str) -> Response:
        """Change some fields. Alerts go on and are judged by the new values; those of a rule that is switched
        off end."""
        return _rule(rule_update(name=name, **changes_of(request, RuleUpdateSerializer)))

    @extend_schema(parameters=[REASON, IF_MATCH], responses={204: None, 404: ErrorsSerializer, **STALE})
    def destroy(self, request: Request, name: str) -> Response:
        """Delete a rule; its alerts end."""
        rule_delete(name=name, reason=reason_of(request), expected=expected_of(request), **caller(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class SilenceViewSet(mixins.ListModelMixin, RestViewSet):
    """Silences, newest first."""

    queryset = Silence.objects.none()
    serializer_class = SilenceSerializer
    lookup_value_regex = r"\d{1,18}"
    filterset_class = SilenceFilters
    search_fields = ("reason", "author")
    ordering_fields = ("created_at", "until", "ended_at")

    def get_queryset(self) -> Any:
        return silence_list()

    @extend_schema(responses=SilenceSerializer, parameters=[ETAG])
    def retrieve(self, request: Request, pk: str) -> Response:
        return _silence(silence_get(int(pk)))

    @extend_schema(
        request=SilenceCreateSerializer,
        parameters=[IDEMPOTENCY_KEY, ETAG],
        responses={201: SilenceSerializer, 400: ErrorsSerializer, 409: ErrorsSerializer},
    )
    def create(self, request: Request) -> Response:
        """Tell webhooks nothing of these alerts until then. Their states go on, and pages show them as
        silenced."""
        given = body_of(request, SilenceCreateSerializer)

        def create() -> Response:
            silence = silence_create(**given, **caller(request))
            response = _silence(silence, code=status.HTTP_201_CREATED)
            response.headers["Location"] = f"/api/v1/silences/{silence.pk}/"
            return response

        return once(request, create)

    @extend_schema(
        request=ReasonSerializer,
        parameters=[IF_MATCH, ETAG],
        responses={200: SilenceSerializer, **REFUSED, **STALE},
    )
    @action(detail=True, methods=["post"])
    def end(self, request: Request, pk: str) -> Response:
        """End a silence before its time. What fires and was not told is told within seconds."""
        silence = silence_end(
            silence_id=int(pk), reason=reason_of(request), expected=expected_of(request), **caller(request)
        )
        return _silence(silence)


def _rule(rule: AlertRule, *, code: int = status.HTTP_200_OK) -> Response:
    return tagged(RuleSerializer(rule).data, rule_tag(rule), code=code)


def _silence(silence: Silence, *, code: int = status.HTTP_200_OK) -> Response:
    return tagged(SilenceSerializer(silence).data, silence_tag(silence), code=code)
