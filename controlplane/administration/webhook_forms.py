"""Forms of the admin pages of webhooks."""

from __future__ import annotations

from typing import Any

from django import forms

from controlplane.administration.forms import EditForm
from controlplane.events.audit import By
from controlplane.topologies.models import Topology
from controlplane.webhooks.choices import KIND_CHOICES
from controlplane.webhooks.models import URL_LENGTH, Webhook
from controlplane.webhooks.services import webhook_create, webhook_update
from controlplane.webhooks.tags import WEBHOOK_FIELDS, webhook_tag


class WebhookForm(EditForm):
    url = forms.CharField(
        max_length=URL_LENGTH,
        help_text="http or https; redirects are not followed",
        widget=forms.TextInput(attrs={"size": 80, "class": "vLargeTextField"}),
    )
    kinds = forms.MultipleChoiceField(choices=KIND_CHOICES, widget=forms.CheckboxSelectMultiple)
    topologies = forms.MultipleChoiceField(
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Empty: all. Events of nodes belong to no topology and are always sent.",
    )

    class Meta:
        model = Webhook
        fields: tuple[str, ...] = WEBHOOK_FIELDS

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # A deleted topology stays selected until a user deselects it.
        names = {*Topology.objects.values_list("name", flat=True), *self.instance.topologies}
        self.fields["topologies"].choices = [(name, name) for name in sorted(names)]

    def tags(self) -> tuple[str, ...]:
        return (webhook_tag(self.instance),)

    def apply(self, given: dict[str, Any], who: By) -> Webhook:
        now = Webhook.objects.get(pk=self.instance.pk)
        changes = {field: value for field, value in given.items() if getattr(now, field) != value}
        return webhook_update(webhook_id=now.pk, changes=changes, expected=self.expected, **who)


class WebhookAddForm(WebhookForm):
    seen = None

    class Meta(WebhookForm.Meta):
        fields = ("name", *WEBHOOK_FIELDS)

    def apply(self, given: dict[str, Any], who: By) -> Webhook:
        webhook, self.secret = webhook_create(**given, **who)
        return webhook
