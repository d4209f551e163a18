"""A specification as text: read, edited, and given back with the tag of what was read."""

from __future__ import annotations

import pytest

from controlplane.topologies.models import Topology
from controlplane.topologies.validation import spec_validate
from domain.topology import load_yaml
from tests.unit.controlplane.conftest import client_of

pytestmark = pytest.mark.django_db
PATH = "/api/v1/topologies/counts/specification/"


def test_it_is_edited_as_text(topology: Topology) -> None:
    operator = client_of("operator")
    read = operator.get(PATH)
    text = read.json()["text"]
    assert spec_validate(load_yaml(text)).spec == spec_validate(Topology.objects.get().spec).spec
    assert "feedback" not in text  # it has its default
    changed = text.replace("Two windows over one parser", "edited by hand")
    body = {"spec": changed, "reason": "a test"}
    saved = operator.put("/api/v1/topologies/counts/", body, format="json", HTTP_IF_MATCH=read["ETag"])
    assert saved.status_code == 200, saved.content
    assert operator.get(PATH).json()["version"] == 2
    first = operator.get(PATH, {"version": 1}).json()
    assert (first["version"], first["text"]) == (1, text)
    again = operator.put("/api/v1/topologies/counts/", body, format="json", HTTP_IF_MATCH=read["ETag"])
    assert again.status_code == 412  # it was changed meanwhile


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        (f"{PATH}?version=7", 404, "has no version 7"),
        (f"{PATH}?version=0", 400, "version"),
        (f"{PATH}?revision=1", 400, "revision"),
        ("/api/v1/topologies/none/specification/", 404, "there is no topology"),
    ],
)
def test_what_is_not_there_is_said(topology: Topology, path: str, status: int, words: str) -> None:
    answer = client_of("viewer").get(path)
    assert answer.status_code == status
    assert words in answer.content.decode()


def test_pipelines_bring_their_text() -> None:
    for pipeline in client_of("viewer").get("/api/v1/pipelines/").json():
        assert load_yaml(pipeline["text"]) == pipeline["spec"]
