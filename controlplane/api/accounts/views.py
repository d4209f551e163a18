"""The signed-in user, and the user's API tokens."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema
from knox.models import AuthToken
from rest_framework import mixins, serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.accounts.roles import ROLES, VIEWER, role_of
from controlplane.accounts.services import token_create, token_revoke
from controlplane.api.requests import REASON, ErrorsSerializer, ReasonSerializer, body_of, caller, reason_of
from controlplane.api.views import RestView, RestViewSet

LONGEST_HOURS = 100_000


class MeSerializer(serializers.Serializer):
    """The signed-in user."""

    username = serializers.CharField()
    role = serializers.ChoiceField(ROLES)


class MeView(RestView):
    """Who has signed in."""

    @extend_schema(responses=MeSerializer)
    def get(self, request: Request) -> Response:
        return Response({"username": request.user.get_username(), "role": role_of(request.user)})


class SettingsSerializer(serializers.Serializer):
    """Thresholds and policies of this installation; durations in seconds."""

    session_timeout = serializers.FloatField()
    heartbeat_interval = serializers.FloatField()
    fault_injection = serializers.BooleanField()
    replacement_delay = serializers.CharField()
    correlation_window = serializers.FloatField()
    correlation_threshold = serializers.IntegerField()
    max_utilisation = serializers.FloatField()
    replay_reserve = serializers.FloatField()
    overload_after = serializers.FloatField()
    slow_after = serializers.FloatField()
    forget_nodes_after = serializers.FloatField()
    rack_price = serializers.FloatField()
    moves_at_once = serializers.IntegerField()
    theta = serializers.FloatField()
    checkpoint_interval = serializers.FloatField()


class SettingsView(RestView):
    """What this installation was started with (``RESURGE_*``)."""

    @extend_schema(responses=SettingsSerializer)
    def get(self, request: Request) -> Response:
        return Response(SettingsSerializer(settings.RESURGE).data)


class TokenSerializer(serializers.ModelSerializer):
    class Meta:
        model = AuthToken
        fields: tuple[str, ...] = ("token_key", "created", "expiry")
        read_only_fields: tuple[str, ...] = fields


class TokenCreateSerializer(ReasonSerializer):
    lifetime_hours = serializers.FloatField(
        required=False,
        min_value=0.01,
        max_value=LONGEST_HOURS,
        help_text="the token expires after this time; without it, never",
    )


class TokenCreatedSerializer(TokenSerializer):
    token = serializers.CharField(help_text="shown this once")

    class Meta(TokenSerializer.Meta):
        fields = (*TokenSerializer.Meta.fields, "token")
        read_only_fields = fields


class TokenViewSet(mixins.ListModelMixin, RestViewSet):
    """My API tokens. Only hashes are stored; a token has the rights of its user."""

    queryset = AuthToken.objects.none()
    serializer_class = TokenSerializer
    lookup_field = "token_key"
    lookup_value_regex = "[0-9a-zA-Z]+"
    write_role = VIEWER
    filter_backends = ()

    def get_queryset(self) -> Any:
        if not self.request.user.is_authenticated:
            return AuthToken.objects.none()
        return AuthToken.objects.filter(user=self.request.user).order_by("-created", "pk")

    @extend_schema(
        request=TokenCreateSerializer, responses={201: TokenCreatedSerializer, 409: ErrorsSerializer}
    )
    def create(self, request: Request) -> Response:
        given = body_of(request, TokenCreateSerializer)
        hours = given.get("lifetime_hours")
        row, text = token_create(
            user=request.user,
            lifetime=None if hours is None else timedelta(hours=hours),
            reason=given["reason"],
            made_with=request.auth,
            **caller(request),
        )
        body = {**TokenSerializer(row).data, "token": text}
        return Response(body, status=status.HTTP_201_CREATED)

    @extend_schema(parameters=[REASON], responses={204: None})
    def destroy(self, request: Request, token_key: str) -> Response:
        token_revoke(token=self.get_object(), reason=reason_of(request), **caller(request))
        return Response(status=status.HTTP_204_NO_CONTENT)
