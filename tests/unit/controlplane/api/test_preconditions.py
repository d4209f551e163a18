"""Entity tags: an edit holds only for the version that its author has read, and a known version is not sent
again."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from controlplane.events.choices import Channel
from controlplane.events.models import AuditEntry
from controlplane.lifecycle.recovery_terms import query_priorities_set
from controlplane.topologies.models import Topology
from controlplane.topologies.services import topology_create, topology_delete, topology_update
from controlplane.topologies.telemetry import topology_metrics_apply
from tests.unit.controlplane.specs import epoch_report, spec_of

TOPOLOGY = "/api/v1/topologies/counts/"
WHY = {"reason": "because"}
BY: dict[str, Any] = {"actor": "bob", "reason": "test", "channel": Channel.CLI}


def match(tag: str) -> dict[str, str]:
    return {"If-Match": tag}


def test_a_specification_is_replaced_only_by_a_user_who_has_seen_it(
    operator: APIClient, topology: Topology
) -> None:
    body = {"spec": spec_of(parallelism=4), **WHY}
    blind = operator.put(TOPOLOGY, body)
    assert (blind.status_code, "If-Match" in blind.json()["errors"][0]["message"]) == (428, True)
    seen = operator.get(TOPOLOGY)["ETag"]
    topology_update(name="counts", spec=spec_of(parallelism=3), **BY)
    late = operator.put(TOPOLOGY, body, headers=match(seen))
    assert late.status_code == 412
    assert "changed meanwhile" in late.json()["errors"][0]["message"]
    fresh = operator.get(TOPOLOGY)["ETag"]
    assert late["ETag"] == fresh
    assert operator.delete(f"{TOPOLOGY}?reason=old", headers=match(seen)).status_code == 412
    replaced = operator.put(TOPOLOGY, body, headers=match(f'"other", {fresh}'))
    assert (replaced.status_code, replaced.json()["version"]) == (200, 3)
    assert replaced["ETag"] == operator.get(TOPOLOGY)["ETag"] != fresh
    assert operator.put(TOPOLOGY, {**body, "spec": spec_of()}, headers=match("*")).json()["version"] == 4
    assert operator.delete(f"{TOPOLOGY}?reason=old", headers=match(fresh)).status_code == 412


def test_the_same_name_again_is_another_topology(operator: APIClient, topology: Topology) -> None:
    seen = operator.get(TOPOLOGY)["ETag"]
    topology_delete(name="counts", **BY)
    topology_create(spec=spec_of(), **BY)
    assert operator.delete(f"{TOPOLOGY}?reason=old", headers=match(seen)).status_code == 412


def test_what_is_measured_does_not_stand_in_the_way(operator: APIClient, topology: Topology) -> None:
    seen, query = operator.get(TOPOLOGY)["ETag"], operator.get(f"{TOPOLOGY}queries/O0[0]/")["ETag"]
    topology_metrics_apply(report=epoch_report(topology), health={})
    assert Topology.objects.get().committed_epoch == 5
    assert operator.get(TOPOLOGY)["ETag"] == seen
    assert operator.get(f"{TOPOLOGY}queries/O0[0]/")["ETag"] == query


def test_priorities_one_by_one_and_together(operator: APIClient, topology: Topology) -> None:
    one, all_of_them = f"{TOPOLOGY}queries/O0[0]/", f"{TOPOLOGY}queries/"
    seen, of_all = operator.get(one)["ETag"], operator.get(f"{all_of_them}?priority=3&limit=1")["ETag"]
    query_priorities_set(topology="counts", priorities={"O1[0]": 7}, **BY)
    changed = operator.patch(one, {"priority": 9, **WHY}, headers=match(seen))
    assert changed.status_code == 200, "another query's priority is not this one's"
    assert operator.patch(one, {"priority": 2, **WHY}, headers=match(seen)).status_code == 412
    assert operator.patch(one, {"priority": 2, **WHY}, headers=match(changed["ETag"])).status_code == 200
    several = {"priorities": {"O0[1]": 5}, **WHY}
    assert operator.patch(all_of_them, several, headers=match(of_all)).status_code == 412
    now = operator.get(all_of_them)["ETag"]
    answer = operator.patch(all_of_them, several, headers=match(now))
    assert answer.status_code == 200
    assert answer["ETag"] == operator.get(all_of_them)["ETag"] != now


def test_a_policy_with_both_preconditions(operator: APIClient, topology: Topology) -> None:
    path = f"{TOPOLOGY}policy/"
    seen = operator.get(path)["ETag"]
    again = operator.get(path, headers={"If-None-Match": seen})
    assert (again.status_code, again["ETag"], again.content) == (304, seen, b"")
    assert operator.get(path, headers={"If-None-Match": f'"x", W/{seen}'}).status_code == 304
    changed = operator.patch(path, {"method": "blocking", **WHY}, headers=match(seen))
    assert changed.status_code == 200
    assert operator.get(path, headers={"If-None-Match": seen}).json()["method"] == "blocking"
    assert operator.patch(path, {"method": "auto", **WHY}, headers=match(seen)).status_code == 412
    assert AuditEntry.objects.filter(action="topology.policy").count() == 1


def test_a_snapshot_is_sent_once_per_sequence(operator: APIClient, topology: Topology) -> None:
    path = "/api/v1/snapshot/"
    first = operator.get(path)
    assert first["ETag"] == f'W/"{first.json()["sequence"]}"'
    again = operator.get(path, headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    query_priorities_set(topology="counts", priorities={"O1[0]": 7}, **BY)
    assert operator.get(path, headers={"If-None-Match": first["ETag"]}).status_code == 200


@pytest.mark.parametrize("tag", ["nonsense", "W/", '"unfinished', "''"])
def test_a_tag_that_is_none_is_refused(operator: APIClient, topology: Topology, tag: str) -> None:
    refused = operator.patch(f"{TOPOLOGY}policy/", {"method": "auto", **WHY}, headers=match(tag))
    assert (refused.status_code, "If-Match" in refused.json()["errors"][0]["message"]) == (400, True)


def test_a_tag_that_a_proxy_has_weakened_permits_the_edit(operator: APIClient, topology: Topology) -> None:
    """As nginx does with answers that it compresses."""
    path = f"{TOPOLOGY}policy/"
    weak = "W/" + operator.get(path)["ETag"]
    assert operator.patch(path, {"method": "blocking", **WHY}, headers=match(weak)).status_code == 200
    assert operator.patch(path, {"method": "auto", **WHY}, headers=match(weak)).status_code == 412
