"""The generated types of the front end are current, and the snapshot and events have these types."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.serializers.json import DjangoJSONEncoder
from django.utils import timezone
from rest_framework import serializers

from controlplane.alerts.models import Alert
from controlplane.alerts.silencing import silence_create
from controlplane.api import typescript as generator
from controlplane.api.specification_words import WORDS, specification_words
from controlplane.api.typescript import COMMAND, ENUMERATIONS, TYPESCRIPT, typescript
from controlplane.checkpoints.models import Checkpoint
from controlplane.events.choices import Channel, OperationKind
from controlplane.events.models import Event
from controlplane.events.operations import operation_request
from controlplane.events.representation import event_fields
from controlplane.incidents.models import Incident, IncidentEntry
from controlplane.lifecycle.topologies import topology_deploy
from controlplane.nodes.models import Node
from controlplane.topologies.models import AvailabilitySample, Problem, Topology
from tests.unit.controlplane.following import snapshot_read

BY: dict[str, Any] = {"actor": "ada", "reason": "a test", "channel": Channel.REST}
PROPOSAL = {
    "proposal": "counts/2",
    "generation": 1,
    "wave": 1,
    "method": "incremental",
    "rollback": False,
    "restore": ["O0[0]"],
    "queries": ["O0[0]"],
    "reason": "most priority per CPU",
}


class TypeScript:
    """The types of the generated file; checks values of JSON against them."""

    def __init__(self, text: str) -> None:
        self.unions = {
            name: set(re.findall(r'"([^"]+)"', body))
            for name, body in re.findall(r"^export type (\w+) =([^;]*);", text, re.MULTILINE)
        }
        self.interfaces = {
            name: {
                member: (kind, mark == "?")
                for member, mark, kind in re.findall(r"^  (\w+)(\??): (.*);$", body, re.MULTILINE)
            }
            for name, body in re.findall(
                r"^export interface (\w+) {\n(.*?)^}", text, re.MULTILINE | re.DOTALL
            )
        }

    def wrong(self, value: Any, kind: str, where: str, *, partly: bool = False) -> list[str]:
        """The parts of `value` that do not have the type `kind`. Members may be missing with `partly`."""
        if kind.endswith(" | null"):
            return [] if value is None else self.wrong(value, kind.removesuffix(" | null"), where)
        if kind.endswith("[]"):
            if not isinstance(value, list):
                return [f"{where}: {value!r} is no {kind}"]
            return [
                wrong
                for at, item in enumerate(value)
                for wrong in self.wrong(item, kind.removesuffix("[]"), f"{where}[{at}]")
            ]
        if record := re.fullmatch(r"Record<string, (.*)>", kind):
            if not isinstance(value, dict):
                return [f"{where}: {value!r} is no {kind}"]
            return [
                wrong
                for key, item in value.items()
                for wrong in self.wrong(item, record[1], f"{where}.{key}")
            ]
        if kind in self.interfaces:
            return self._members_wrong(value, self.interfaces[kind], where, partly=partly)
        return [] if self._is(value, kind) else [f"{where}: {value!r} is no {kind}"]

    def _members_wrong(
        self, value: Any, members: Mapping[str, tuple[str, bool]], where: str, *, partly: bool
    ) -> list[str]:
        if not isinstance(value, dict):
            return [f"{where}: {value!r} is no object"]
        wanted = {name for name, (_, optional) in members.items() if not optional and not partly}
        found = [f"{where}.{name} is missing" for name in sorted(wanted - value.keys())]
        for name, item in value.items():
            if name in members:
                found += self.wrong(item, members[name][0], f"{where}.{name}")
            else:
                found.append(f"{where}.{name} has no type")
        return found

    def _is(self, value: Any, kind: str) -> bool:
        match kind:
            case "unknown":
                return True
            case "string":
                return isinstance(value, str)
            case "number":
                return isinstance(value, int | float) and not isinstance(value, bool)
            case "boolean":
                return isinstance(value, bool)
            case "Iso":
                return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
        return value in self.unions[kind]


@pytest.fixture(scope="module")
def types() -> TypeScript:
    return TypeScript(TYPESCRIPT.read_text(encoding="utf-8"))


def test_the_words_of_specifications_are_current() -> None:
    assert WORDS.read_text(encoding="utf-8") == specification_words(), f"run {COMMAND}"


def test_the_committed_types_are_current() -> None:
    assert TYPESCRIPT.read_text(encoding="utf-8") == typescript(), (
        f"{TYPESCRIPT.name} is out of date: run {COMMAND}, then npm run check and npm run build in "
        "dashboard/frontend"
    )


@pytest.mark.django_db
def test_rows_and_events_have_the_types(topology: Topology, nodes: list[Node], types: TypeScript) -> None:
    now = timezone.now()
    topology_deploy(name="counts", **BY)
    operation_request(kind=OperationKind.TOPOLOGY_RECOVER, target="counts", **BY)
    incident = Incident.objects.create(
        number=1,
        detected_at=now,
        opened_at=now,
        closed_at=now,
        checkpoints={"counts": 3},
        proposals={"counts": PROPOSAL},
        summary={"failed_queries": {"counts": ["O0[0]"]}, "returned": {"counts/O0[0]": now.isoformat()}},
        availability_area=0.5,
    )
    incident.topologies.add(topology)
    IncidentEntry.objects.create(
        incident=incident, at=now, kind="step", text="Asked for a node.", data={"a": 1}
    )
    Checkpoint.objects.create(topology=topology, epoch=4, started_at=now, ended_at=now)
    Alert.objects.create(
        rule="lag-high", metric="lag", comparison="above", threshold=30.0, severity="warning",
        topology="counts", state="firing", since=now, fired_at=now,
    )  # fmt: skip
    silence_create(topology="counts", until=now + timedelta(hours=1), **BY)
    Problem.objects.create(topology=topology, at=now, where="O0", what="it broke")
    Problem.objects.create(at=now, where="web", what="it broke")
    AvailabilitySample.objects.create(topology=topology, at=now, available=1, total=1, weighted=1.0)

    entities = snapshot_read()["entities"]
    names = {kind: name for kind, (name, _) in types.interfaces["EntityTypes"].items()}
    assert list(entities) == list(names)
    assert all(entities.values()), "every kind has a row to check"
    wrong = [
        problem
        for kind, rows in entities.items()
        for key, row in rows.items()
        for problem in types.wrong(row, names[kind], f"{kind} {key}")
    ]
    for row in Event.objects.all():
        event = json.loads(json.dumps(event_fields(row), cls=DjangoJSONEncoder))
        wrong += types.wrong(event, "NumberedEvent", f"event {row.sequence}")
        for change in event["changes"]:
            if change["fields"] is not None:
                where = f"event {row.sequence}, {change['key']}"
                wrong += types.wrong(change["fields"], names[change["entity"]], where, partly=True)
    assert not wrong, "\n".join(wrong)


def test_each_enumeration_has_values_of_its_own() -> None:
    assert len({frozenset(values) for values in ENUMERATIONS.values()}) == len(ENUMERATIONS)


@pytest.mark.parametrize(
    ("field", "error", "says"),
    [
        (serializers.FileField(), TypeError, "no type in TypeScript for strange, a FileField"),
        (serializers.ChoiceField(("up", "down")), ValueError, "names no choices down, up of strange"),
    ],
)
def test_a_field_without_a_type_is_refused(
    field: serializers.Field, error: type[Exception], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class StrangeEntity(serializers.Serializer):
        strange = field

    monkeypatch.setattr(generator, "ENTITIES", {"node": StrangeEntity})
    with pytest.raises(error, match=says):
        typescript()
