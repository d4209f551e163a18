"""Webhooks and their deliveries over REST, for administrators."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import mixins, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts.roles import ADMINISTRATOR
from controlplane.api.idempotency import once
from controlplane.api.preconditions import ETAG, IF_MATCH, expected_of, tagged
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
from controlplane.api.webhooks.filtersets import DeliveryFilters, WebhookFilters
from controlplane.api.webhooks.serializers import (
    DeliveryDetailSerializer,
    DeliverySerializer,
    RotateSerializer,
    WebhookCreateSerializer,
    WebhookSecretSerializer,
    WebhookSerializer,
    WebhookUpdateSerializer,
)
from controlplane.errors import Missing
from controlplane.webhooks.deliveries import delivery_redeliver, webhook_test
from controlplane.webhooks.models import Delivery, Webhook
from controlplane.webhooks.selectors import delivery_list, webhook_get, webhook_list
from controlplane.webhooks.services import (
    webhook_create,
    webhook_delete,
    webhook_secret_rotate,
    webhook_update,
)
from controlplane.webhooks.tags import webhook_tag

REFUSED = {400: ErrorsSerializer, 404: ErrorsSerializer, 409: ErrorsSerializer}
STALE = {412: ErrorsSerializer}


@extend_schema_view(list=extend_schema(responses=WebhookSerializer(many=True)))
class WebhookViewSet(mixins.ListModelMixin, RestViewSet):
    """Webhooks by id. Their URLs may hold secrets, so only administrators see them."""

    queryset = Webhook.objects.none()
    serializer_class = WebhookSerializer
    lookup_value_regex = r"\d{1,18}"
    read_role = write_role = ADMINISTRATOR
    filterset_class = WebhookFilters
    search_fields = ("name", "url")
    ordering_fields = ("name", "created_at", "failing_since")

    def get_queryset(self) -> Any:
        return webhook_list()

    @extend_schema(responses=WebhookSerializer, parameters=[ETAG])
    def retrieve(self, request: Request, pk: str) -> Response:
        return _shown(int(pk))

    @extend_schema(
        request=WebhookCreateSerializer,
        parameters=[ETAG],
        responses={201: WebhookSecretSerializer, 400: ErrorsSerializer, 409: ErrorsSerializer},
    )
    def create(self, request: Request) -> Response:
        """Create a webhook. The answer holds the secret that signs its deliveries; it is not shown again."""
        webhook, secret = webhook_create(**body_of(request, WebhookCreateSerializer), **caller(request))
        response = _shown(webhook.pk, code=status.HTTP_201_CREATED, secret=secret)
        response.headers["Location"] = f"/api/v1/webhooks/{webhook.pk}/"
        return response

    @extend_schema(
        request=WebhookUpdateSerializer,
        parameters=[IF_MATCH, ETAG],
        responses={200: WebhookSerializer, **REFUSED, **STALE},
    )
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change some fields. Disabling gives up the pending deliveries; enabling starts with the next
        event."""
        webhook_update(webhook_id=int(pk), **changes_of(request, WebhookUpdateSerializer))
        return _shown(int(pk))

    @extend_schema(parameters=[REASON, IF_MATCH], responses={204: None, 404: ErrorsSerializer, **STALE})
    def destroy(self, request: Request, pk: str) -> Response:
        webhook_delete(
            webhook_id=int(pk),
            reason=reason_of(request),
            expected=expected_of(request),
            **caller(request),
        )
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(
        request=RotateSerializer, parameters=[ETAG], responses={200: WebhookSecretSerializer, **REFUSED}
    )
    @action(detail=True, methods=["post"], url_path="rotate-secret")
    def rotate_secret(self, request: Request, pk: str) -> Response:
        """Make a new secret and show it once. The present secret also signs for `overlap_hours`."""
        given = body_of(request, RotateSerializer)
        webhook, secret = webhook_secret_rotate(
            webhook_id=int(pk),
            overlap=timedelta(hours=given["overlap_hours"]),
            reason=given["reason"],
            **caller(request),
        )
        return _shown(webhook.pk, secret=secret)

    @extend_schema(
        request=ReasonSerializer,
        parameters=[IDEMPOTENCY_KEY],
        responses={202: DeliverySerializer, **REFUSED},
    )
    @action(detail=True, methods=["post"])
    def test(self, request: Request, pk: str) -> Response:
        """Send one `webhook.test`, also while the webhook is disabled. The answer is the delivery to
        follow."""

        def create() -> Response:
            return _followed(webhook_test(webhook_id=int(pk), reason=reason_of(request), **caller(request)))

        return once(request, create)


class DeliveryViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, RestViewSet):
    """The delivery log of a webhook, newest first."""

    queryset = Delivery.objects.none()
    lookup_value_regex = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    read_role = write_role = ADMINISTRATOR
    filterset_class = DeliveryFilters
    ordering_fields = ("created_at", "due_at", "ended_at", "attempts")

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        webhook_get(int(kwargs["webhook"]))

    def get_queryset(self) -> Any:
        rows = delivery_list(int(self.kwargs.get("webhook", 0)))
        return rows.prefetch_related("log") if self.action == "retrieve" else rows

    def get_serializer_class(self) -> Any:
        return DeliveryDetailSerializer if self.action == "retrieve" else DeliverySerializer

    @extend_schema(
        request=ReasonSerializer,
        parameters=[IDEMPOTENCY_KEY],
        responses={202: DeliverySerializer, **REFUSED},
    )
    @action(detail=True, methods=["post"])
    def redeliver(self, request: Request, webhook: str, pk: str) -> Response:
        """Send a delivery again under the same id, whether it succeeded or not. A pending one becomes due at
        once."""

        def create() -> Response:
            return _followed(
                delivery_redeliver(
                    delivery_id=pk, webhook_id=int(webhook), reason=reason_of(request), **caller(request)
                )
            )

        return once(request, create)


def _shown(webhook_id: int, *, code: int = status.HTTP_200_OK, **more: str) -> Response:
    webhook = webhook_list().filter(pk=webhook_id).first()
    if webhook is None:
        raise Missing(f"there is no webhook {webhook_id}")
    return tagged({**WebhookSerializer(webhook).data, **more}, webhook_tag(webhook), code=code)


def _followed(delivery: Delivery) -> Response:
    """202 with the delivery to follow."""
    return Response(
        DeliverySerializer(delivery).data,
        status=status.HTTP_202_ACCEPTED,
        headers={"Location": f"/api/v1/webhooks/{delivery.webhook_id}/deliveries/{delivery.pk}/"},
    )
