"""Forms of the admin pages of alert rules and silences."""

from __future__ import annotations

from typing import Any

from django import forms

from controlplane.administration.forms import EditForm, ServiceForm
from controlplane.alerts.models import RUNBOOK_LENGTH, AlertRule, Silence
from controlplane.alerts.representation import RULE_EDITABLE
from controlplane.alerts.services import rule_create, rule_update
from controlplane.alerts.silencing import silence_create
from controlplane.alerts.tags import rule_tag
from controlplane.events.audit import By
from controlplane.topologies.models import Topology


def _names(rows: Any, *also: str) -> list[tuple[str, str]]:
    """Choices of names; a name that is gone stays selected until a user selects another one."""
    names = {*rows.values_list("name", flat=True), *also} - {""}
    return [("", "all"), *((name, name) for name in sorted(names))]


class RuleForm(EditForm):
    topology = forms.ChoiceField(required=False)
    runbook = forms.CharField(
        required=False,
        max_length=RUNBOOK_LENGTH,
        widget=forms.Textarea(attrs={"rows": 3, "cols": 80}),
        help_text="What to do when it fires: a text, or an address that begins with https:// or http://",
    )

    class Meta:
        model = AlertRule
        fields: tuple[str, ...] = RULE_EDITABLE

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["topology"].choices = _names(Topology.objects.all(), self.instance.topology)

    def tags(self) -> tuple[str, ...]:
        return (rule_tag(self.instance),)

    def apply(self, given: dict[str, Any], who: By) -> AlertRule:
        now = AlertRule.objects.get(pk=self.instance.pk)
        changes = {field: value for field, value in given.items() if getattr(now, field) != value}
        return rule_update(name=now.name, changes=changes, expected=self.expected, **who)


class RuleAddForm(RuleForm):
    seen = None

    class Meta(RuleForm.Meta):
        fields = ("name", "metric", *RULE_EDITABLE)

    def apply(self, given: dict[str, Any], who: By) -> AlertRule:
        return rule_create(**given, **who)


class SilenceForm(ServiceForm):
    rule = forms.ChoiceField(required=False)
    topology = forms.ChoiceField(required=False)

    class Meta:
        model = Silence
        fields = ("rule", "topology", "until")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["rule"].choices = _names(AlertRule.objects.all())
        self.fields["topology"].choices = _names(Topology.objects.all())

    def apply(self, given: dict[str, Any], who: By) -> Silence:
        return silence_create(**given, **who)
