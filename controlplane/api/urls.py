"""Everything under ``/api/v1/``."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path, re_path
from rest_framework.routers import SimpleRouter

from controlplane.api.accounts.views import MeView, SettingsView, TokenViewSet
from controlplane.api.alerts.views import AlertRuleViewSet, AlertViewSet, SilenceViewSet
from controlplane.api.checkpoints.views import (
    CheckpointViewSet,
    SavepointViewSet,
    TopologyCheckpointViewSet,
    TopologySavepointView,
)
from controlplane.api.docs import DocumentationView, SchemaView
from controlplane.api.events.views import (
    AuditViewSet,
    EventListView,
    OperationViewSet,
    RecentView,
    SnapshotView,
)
from controlplane.api.incidents.views import IncidentViewSet, TopologyPlanViewSet
from controlplane.api.measurements.views import MeasurementsView
from controlplane.api.nodes.views import NodeRequestViewSet, NodeSampleViewSet, NodeViewSet
from controlplane.api.operators.views import (
    OperatorLogView,
    OperatorProblemsView,
    OperatorRowsView,
    OperatorView,
)
from controlplane.api.racks.views import RackViewSet
from controlplane.api.replication.views import ReplicasView, ReplicationPlanView
from controlplane.api.results.views import ResultsView
from controlplane.api.retention.views import RetentionView
from controlplane.api.topologies.parts import (
    AvailabilityViewSet,
    PartitionViewSet,
    PolicyViewSet,
    ProblemViewSet,
    QueryViewSet,
    SpecificationView,
    TentativeViewSet,
    TopologyProblemViewSet,
    VersionViewSet,
)
from controlplane.api.topologies.views import PipelineListView, TopologyViewSet
from controlplane.api.unknown import UnknownView
from controlplane.api.webhooks.views import DeliveryViewSet, WebhookViewSet
from controlplane.api.whatif.views import WhatIfView
from controlplane.measurements.selectors import (
    node_course,
    operator_course,
    query_course,
    topology_course,
)

router = SimpleRouter()
router.register("topologies", TopologyViewSet, basename="topology")
router.register("nodes", NodeViewSet, basename="node")
router.register("node-requests", NodeRequestViewSet, basename="node-request")
router.register("racks", RackViewSet, basename="rack")
router.register("incidents", IncidentViewSet, basename="incident")
router.register("checkpoints", CheckpointViewSet, basename="checkpoint")
router.register("alerts", AlertViewSet, basename="alert")
router.register("alert-rules", AlertRuleViewSet, basename="alert-rule")
router.register("silences", SilenceViewSet, basename="silence")
router.register("savepoints", SavepointViewSet, basename="savepoint")
router.register("operations", OperationViewSet, basename="operation")
router.register("problems", ProblemViewSet, basename="problem")
router.register("audit", AuditViewSet, basename="audit")
router.register("webhooks", WebhookViewSet, basename="webhook")
router.register(r"webhooks/(?P<webhook>\d{1,18})/deliveries", DeliveryViewSet, basename="webhook-delivery")
router.register("tokens", TokenViewSet, basename="token")

of_topology: list[URLPattern | URLResolver] = [
    path("queries/", QueryViewSet.as_view({"get": "list", "patch": "priorities"}), name="query-list"),
    path(
        "queries/<str:query>/",
        QueryViewSet.as_view({"get": "retrieve", "patch": "partial_update"}),
        name="query-detail",
    ),
    path("queries/<str:query>/results/", ResultsView.as_view(), name="query-results"),
    path(
        "queries/<str:query>/measurements/",
        MeasurementsView.as_view(course_of=query_course),
        name="query-measurements",
    ),
    path(
        "operators/<str:operator>/measurements/",
        MeasurementsView.as_view(course_of=operator_course),
        name="operator-measurements",
    ),
    path("measurements/", MeasurementsView.as_view(course_of=topology_course), name="topology-measurements"),
    path("policy/", PolicyViewSet.as_view({"get": "retrieve", "patch": "partial_update"}), name="policy"),
    path("operators/<str:operator>/", OperatorView.as_view(), name="operator-detail"),
    path("operators/<str:operator>/log/", OperatorLogView.as_view(), name="operator-log"),
    path("operators/<str:operator>/rows/", OperatorRowsView.as_view(), name="operator-rows"),
    path(
        "operators/<str:operator>/problems/",
        OperatorProblemsView.as_view(),
        name="operator-problems",
    ),
    path("partitions/", PartitionViewSet.as_view({"get": "list"}), name="partition-list"),
    path("checkpoints/", TopologyCheckpointViewSet.as_view({"get": "list"}), name="topology-checkpoints"),
    path(
        "checkpoints/<int:epoch>/",
        TopologyCheckpointViewSet.as_view({"get": "retrieve"}),
        name="topology-checkpoint",
    ),
    path("savepoints/", TopologySavepointView.as_view({"post": "create"}), name="topology-savepoints"),
    path("plans/", TopologyPlanViewSet.as_view({"get": "list"}), name="topology-plans"),
    path("replication-plan/", ReplicationPlanView.as_view(), name="topology-replication-plan"),
    path("replicas/", ReplicasView.as_view(), name="topology-replicas"),
    path("specification/", SpecificationView.as_view(), name="topology-specification"),
    path("versions/", VersionViewSet.as_view({"get": "list"}), name="topology-versions"),
    path("problems/", TopologyProblemViewSet.as_view({"get": "list"}), name="topology-problems"),
    path("tentative/", TentativeViewSet.as_view({"get": "list"}), name="topology-tentative"),
    path("availability/", AvailabilityViewSet.as_view({"get": "list"}), name="topology-availability"),
]

urlpatterns: list[URLPattern | URLResolver] = [
    path("schema/", SchemaView.as_view(), name="schema"),
    path("docs/", DocumentationView.as_view(url_name="schema"), name="docs"),
    path("me/", MeView.as_view(), name="me"),
    path("settings/", SettingsView.as_view(), name="settings"),
    path("retention/", RetentionView.as_view(), name="retention"),
    path("snapshot/", SnapshotView.as_view(), name="snapshot"),
    path("snapshot/recent/", RecentView.as_view(), name="snapshot-recent"),
    path("events/", EventListView.as_view(), name="events"),
    path("pipelines/", PipelineListView.as_view(), name="pipelines"),
    path("what-if/", WhatIfView.as_view(), name="what-if"),
    path("", include(router.urls)),
    path("nodes/<str:name>/samples/", NodeSampleViewSet.as_view({"get": "list"}), name="node-samples"),
    path(
        "nodes/<str:name>/measurements/",
        MeasurementsView.as_view(course_of=node_course),
        name="node-measurements",
    ),
    re_path(r"^topologies/(?P<topology>[A-Za-z0-9_-]+)/", include(of_topology)),
    re_path(r"^[\s\S]*$", UnknownView.as_view()),
]
