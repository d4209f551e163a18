"""One derivation of health for every page, REST, command line, webhook and metric: facts in, words out."""

from domain.health.estimates import catch_up_longest, catch_up_words
from domain.health.incidents import IncidentFacts, incident_health
from domain.health.nodes import node_health
from domain.health.queries import Counts, Limits, QueryFacts, queries_count, query_health
from domain.health.shape import TONES, Health, Tone
from domain.health.topologies import topology_health

__all__ = [
    "TONES",
    "Counts",
    "Health",
    "IncidentFacts",
    "Limits",
    "QueryFacts",
    "Tone",
    "catch_up_longest",
    "catch_up_words",
    "incident_health",
    "node_health",
    "queries_count",
    "query_health",
    "topology_health",
]
