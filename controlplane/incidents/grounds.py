"""What plans are made for. They are made before the transaction that carries them out, which looks whether it
is still so."""

from __future__ import annotations

from dataclasses import dataclass, replace

from controlplane.incidents.loading import deployed_topologies, plans_last
from controlplane.incidents.models import Incident, IncidentEntry
from controlplane.nodes.choices import NODE_PRESENT, NodeRequestState
from controlplane.nodes.models import Node, NodeRequest
from controlplane.topologies.representation import POLICY_FIELDS

Row = tuple[object, ...]
OF_TOPOLOGY = ("pk", "name", "version", "generation", "acting", *POLICY_FIELDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounds:
    """All that the machine of an incident is made of, without what is measured and which checkpoint is the
    newest: those of some seconds ago do as well."""

    incident: Row
    topologies: list[Row]
    plans: list[Row]
    requests: list[Row]
    nodes: frozenset[Row]

    def hold(self, now: Grounds) -> bool:
        """Whether a plan still fits. It does although nodes have come since, since the next one can use them;
        hundreds of replacements come one after another."""
        return self.nodes <= now.nodes and replace(now, nodes=self.nodes) == self


def plan_grounds(incident: Incident) -> Grounds:
    """To be read before the machine is loaded, and again in the transaction that locks the incident."""
    told = IncidentEntry.objects.filter(incident=incident, data__has_key="fact").exclude(data__fact="arrived")
    asked = NodeRequest.objects.filter(incident=incident).order_by("pk").values_list("pk", "state")
    present = Node.objects.filter(state__in=NODE_PRESENT)
    return Grounds(
        incident=(incident.state, incident.costs, told.order_by("id").values_list("pk", flat=True).last()),
        topologies=[*deployed_topologies().order_by("pk").values_list(*OF_TOPOLOGY)],
        plans=[*plans_last().order_by("pk").values_list("pk", "state", "published_at")],
        requests=[(pk, state == NodeRequestState.FAILED) for pk, state in asked],
        nodes=frozenset(present.values_list("name", "state", "standby", "capacity", "rack")),
    )
