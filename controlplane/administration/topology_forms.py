"""Forms of the admin pages of topologies and queries."""

from __future__ import annotations

from typing import Any

import yaml
from django import forms

from controlplane.administration.forms import EditForm, ServiceForm
from controlplane.errors import Invalid
from controlplane.events.audit import By
from controlplane.lifecycle.recovery_terms import query_priorities_set, topology_policy_set
from controlplane.topologies.models import Query, Topology
from controlplane.topologies.representation import POLICY_FIELDS
from controlplane.topologies.services import topology_create, topology_update
from controlplane.topologies.submission import specification_compose
from controlplane.topologies.tags import policy_tag, priorities_tag, specification_tag
from controlplane.topologies.validation import lines_known, pipeline_names, spec_read


def _specification(**options: Any) -> forms.CharField:
    widget = forms.Textarea(
        attrs={"rows": 24, "cols": 100, "spellcheck": "false", "class": "vLargeTextField"}
    )
    return forms.CharField(widget=widget, strip=False, **options)


def spec_text(spec: dict[str, Any]) -> str:
    """A specification as an author would write it."""
    return yaml.safe_dump(spec, sort_keys=False, allow_unicode=True, width=100)


class _OfSpecification(ServiceForm):
    def field_of(self, path: str) -> str | None:
        """Faults have paths into the specification, such as ``operators[2].kind``."""
        return path if path in self.fields else "specification"


class TopologyAddForm(_OfSpecification):
    pipeline = forms.ChoiceField(required=False, help_text="a ready-made topology")
    name = forms.CharField(required=False, max_length=64, help_text="instead of the specification's name")
    specification = _specification(required=False, help_text="or one of your own, in YAML or JSON")

    class Meta:
        model = Topology
        fields = ("name",)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["pipeline"].choices = [("", "none"), *((name, name) for name in pipeline_names())]

    def apply(self, given: dict[str, Any], who: By) -> Topology:
        pipeline, text = given["pipeline"], given["specification"].strip()
        if bool(pipeline) == bool(text):
            raise Invalid("specification", "choose a pipeline or write a specification, one of the two")
        asked = {"name": given["name"], **({"pipeline": pipeline} if pipeline else {"spec": text})}
        with lines_known(asked):
            return topology_create(spec=specification_compose(asked), **who)


class TopologyForm(_OfSpecification, EditForm):
    """The policy, at any time, and a new version of the specification, while it is not deployed."""

    specification = _specification(
        help_text="Changing it makes a new version, which the next deployment runs. Not while it is deployed."
    )

    class Meta:
        model = Topology
        fields = POLICY_FIELDS

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        newest = self.instance.versions.order_by("-number").first()
        self.newest = newest.spec if newest is not None else self.instance.spec
        self.initial["specification"] = spec_text(self.newest)

    def tags(self) -> tuple[str, ...]:
        return specification_tag(self.instance), policy_tag(self.instance)

    def apply(self, given: dict[str, Any], who: By) -> Topology:
        text = given.pop("specification")
        spec = spec_read(text)
        topology = Topology.objects.get(pk=self.instance.pk)
        if spec != self.newest:
            with lines_known({"spec": text}):
                topology = topology_update(name=topology.name, spec=spec, expected=self.expected, **who)
        changes = {field: value for field, value in given.items() if getattr(topology, field) != value}
        return topology_policy_set(name=topology.name, changes=changes, expected=self.expected, **who)


class QueryForm(EditForm):
    class Meta:
        model = Query
        fields = ("priority",)

    def tags(self) -> tuple[str, ...]:
        query = self.instance
        return (priorities_tag(query.topology.name, {query.partition.label: query.priority}),)

    def apply(self, given: dict[str, Any], who: By) -> Query:
        query = Query.objects.select_related("topology", "partition").get(pk=self.instance.pk)
        (changed,) = query_priorities_set(
            topology=query.topology.name,
            priorities={query.partition.label: given["priority"]},
            expected=self.expected,
            **who,
        )
        return changed
