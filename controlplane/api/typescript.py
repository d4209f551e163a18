"""The page's types in TypeScript: enumerations, entities and events, from the serializers in `entities`."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import get_args

from rest_framework import serializers
from rest_framework.fields import _UnvalidatedField

from controlplane.alerts.choices import (
    METRIC_CHOICES,
    AlertComparison,
    AlertSeverity,
    AlertState,
    MissingPolicy,
)
from controlplane.api.entities import ENTITIES, NumberedEventEntity
from controlplane.checkpoints.choices import CheckpointState
from controlplane.choices import Choices
from controlplane.events.choices import Channel, EventKind, OperationKind, OperationState
from controlplane.incidents.choices import (
    EntryKind,
    IncidentState,
    IncidentTrigger,
    PlanKind,
    PlanState,
    PredictionKind,
    PredictionStage,
)
from controlplane.nodes.choices import NodeRequestState, NodeState
from controlplane.topologies.choices import (
    PLANNER_CHOICES,
    REPLICATION_PLANNER_CHOICES,
    ApprovalPolicy,
    Desired,
    Guarantee,
    MethodPolicy,
    PartitionState,
    QueryStatus,
    RebalancingPolicy,
    RecoveryMethod,
    ReplicationMode,
    RollbackPolicy,
    Severity,
    TentativeOutput,
    TopologyStatus,
)
from domain.health import TONES
from domain.topology.spec import Partitioning
from host.environment import ROOT

TYPESCRIPT = ROOT / "dashboard" / "frontend" / "src" / "lib" / "entities.generated.ts"
COMMAND = "manage.py typescript"
WIDTH = 110

_CHOICES: tuple[type[Choices], ...] = (
    *(
        TopologyStatus,
        Desired,
        Guarantee,
        MethodPolicy,
        RollbackPolicy,
        ApprovalPolicy,
        RebalancingPolicy,
        ReplicationMode,
        TentativeOutput,
        PartitionState,
        QueryStatus,
    ),
    *(Severity, NodeState, NodeRequestState, IncidentState, IncidentTrigger, EntryKind, RecoveryMethod),
    *(
        PlanKind,
        PlanState,
        PredictionKind,
        PredictionStage,
        CheckpointState,
        OperationKind,
        OperationState,
        EventKind,
        Channel,
    ),
    *(AlertState, AlertSeverity, AlertComparison, MissingPolicy),
)
ENUMERATIONS: dict[str, tuple[str, ...]] = {
    **{choices.__name__: tuple(choices.values) for choices in _CHOICES},
    "Planner": tuple(name for name, _ in PLANNER_CHOICES),
    "ReplicationPlanner": tuple(name for name, _ in REPLICATION_PLANNER_CHOICES),
    "AlertMetric": tuple(name for name, _ in METRIC_CHOICES),
    "Partitioning": get_args(Partitioning),
    "Tone": TONES,
    "EntityName": tuple(ENTITIES),
}
"""Name in TypeScript to values. A field is recognised by its values, so no two may have the same."""

_NAMES = {frozenset(values): name for name, values in ENUMERATIONS.items()}

# The first that fits: some are derived from others.
_TYPES: tuple[tuple[type[serializers.Field], str], ...] = (
    (serializers.BooleanField, "boolean"),
    (serializers.IntegerField, "number"),
    (serializers.FloatField, "number"),
    (serializers.DateTimeField, "Iso"),
    (serializers.UUIDField, "string"),
    (serializers.CharField, "string"),
    (_UnvalidatedField, "unknown"),
)

_FIRST = f"""\
// Written by `{COMMAND}` from the models and serializers of the control plane. Do not edit.

/** A time as ISO 8601 in UTC: text order is time order. */
export type Iso = string;
"""

_LAST = """\
/** The state of everything at one sequence number: entity, then key, then fields. */
export interface Snapshot {
  sequence: number;
  server_time: Iso;
  entities: { [E in EntityName]: Record<string, EntityTypes[E]> };
}
"""


def typescript() -> str:
    """The text of the generated file.

    Raises TypeError for a field whose class has no type in TypeScript here, ValueError for choices that
    `ENUMERATIONS` does not name.
    """
    interfaces: dict[str, str] = {}
    for serializer in (*ENTITIES.values(), NumberedEventEntity):
        _interface_add(serializer(), interfaces)
    entity_types = [f"  {kind}: {_name(serializer)};\n" for kind, serializer in ENTITIES.items()]
    entity_names = "".join(f'  "{kind}",\n' for kind in ENTITIES)
    parts = (
        _FIRST,
        *(_enumeration(name, values) for name, values in ENUMERATIONS.items()),
        f"export const ENTITY_NAMES: readonly EntityName[] = [\n{entity_names}];\n",
        *interfaces.values(),
        f"export interface EntityTypes {{\n{''.join(entity_types)}}}\n",
        _LAST,
    )
    return "\n".join(parts)


def _enumeration(name: str, values: Sequence[str]) -> str:
    texts = [f'"{value}"' for value in values]
    line = f"export type {name} = {' | '.join(texts)};\n"
    if len(line) <= WIDTH:
        return line
    return f"export type {name} =\n" + "\n".join(f"  | {text}" for text in texts) + ";\n"


def _interface_add(serializer: serializers.Serializer, interfaces: dict[str, str]) -> None:
    """Add what `serializer` describes to `interfaces`; what it refers to comes first."""
    members: list[str] = []
    for name, field in serializer.fields.items():
        # A column with a default need not be given, but is always told.
        told = field.required or isinstance(serializer, serializers.ModelSerializer)
        mark = "" if told else "?"
        members.append(f"{_comment(field.help_text, '  ')}  {name}{mark}: {_type(field, interfaces)};\n")
    kind = type(serializer)
    interfaces[_name(kind)] = (
        f"{_comment(kind.__doc__)}export interface {_name(kind)} {{\n{''.join(members)}}}\n"
    )


def _type(field: serializers.Field, interfaces: dict[str, str]) -> str:
    plain = _plain_type(field, interfaces)
    return f"{plain} | null" if field.allow_null and plain != "unknown" else plain


def _plain_type(field: serializers.Field, interfaces: dict[str, str]) -> str:
    if isinstance(field, serializers.ListField | serializers.ListSerializer):
        return f"{_item_type(field, interfaces)}[]"
    if isinstance(field, serializers.DictField):
        return f"Record<string, {_type(field.child, interfaces)}>"
    if isinstance(field, serializers.Serializer):
        _interface_add(field, interfaces)
        return _name(type(field))
    if isinstance(field, serializers.ChoiceField):
        return _choice_type(field)
    for kind, name in _TYPES:
        if isinstance(field, kind):
            return name
    raise TypeError(f"no type in TypeScript for {field.field_name}, a {type(field).__name__}")


def _item_type(field: serializers.ListField | serializers.ListSerializer, interfaces: dict[str, str]) -> str:
    name = _type(field.child, interfaces)
    return f"({name})" if " " in name else name


def _choice_type(field: serializers.ChoiceField) -> str:
    values = frozenset(field.choices)
    if values not in _NAMES:
        raise ValueError(f"ENUMERATIONS names no choices {', '.join(sorted(values))} of {field.field_name}")
    return _NAMES[values]


def _name(serializer: type[serializers.Serializer]) -> str:
    return serializer.__name__.removesuffix("Serializer").removesuffix("Entity")


def _comment(text: str | None, indent: str = "") -> str:
    """A comment of TypeScript, of one or more lines; "" where there is no text."""
    words = " ".join((text or "").split())
    if not words:
        return ""
    line = f"{indent}/** {words} */\n"
    if len(line) <= WIDTH:
        return line
    before = f"{indent} * "
    lines = textwrap.fill(words, WIDTH, initial_indent=before, subsequent_indent=before)
    return f"{indent}/**\n{lines}\n{indent} */\n"
