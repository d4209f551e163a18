"""States of incidents and recovery plans, and the kinds of entries in the story."""

from __future__ import annotations

from controlplane.choices import Choices


class IncidentState(Choices):
    OPEN = "open", "Open"
    ACQUIRING = "acquiring", "Acquiring nodes"
    RESTORING = "restoring", "Restoring"
    REPLAYING = "replaying", "Replaying"
    VERIFYING = "verifying", "Verifying"
    CATCHING_UP = "catching_up", "Restored, catching up"
    CLOSED = "closed", "Closed"
    ABORTED = "aborted", "Aborted"


INCIDENT_ENDED = frozenset({IncidentState.CLOSED, IncidentState.ABORTED})
INCIDENT_ACTIVE = frozenset(set(IncidentState) - INCIDENT_ENDED)


class IncidentTrigger(Choices):
    DETECTED = "detected", "Detected"
    MANUAL = "manual", "Manual"
    BALANCE = "balance", "Uneven nodes"
    OVERLOAD = "overload", "Overload"
    SLOW = "slow", "Slow node"


class EntryKind(Choices):
    STIMULUS = "stimulus", "Stimulus"
    EVIDENCE = "evidence", "Evidence"
    DECISION = "decision", "Decision"
    STEP = "step", "Step"
    OUTCOME = "outcome", "Outcome"


class PlanKind(Choices):
    DEPLOY = "deploy", "Deploy"
    RECOVER = "recover", "Recover"
    RESTORE = "restore", "Restore"
    MOVE = "move", "Move"


class PlanState(Choices):
    PLANNED = "planned", "Planned"
    PUBLISHED = "published", "Published"
    APPLIED = "applied", "Applied"
    VERIFIED = "verified", "Verified"
    SUPERSEDED = "superseded", "Superseded"


PLAN_CURRENT = frozenset({PlanState.PLANNED, PlanState.PUBLISHED, PlanState.APPLIED})
"""May still change; a later generation supersedes it."""


class PredictionKind(Choices):
    """What is predicted to be over."""

    INCIDENT = "incident", "Incident"
    WAVE = "wave", "Wave"
    QUERY = "query", "Query"


class PredictionStage(Choices):
    """What it waited for when that was predicted (`domain.forecast.outlook`)."""

    NODES = "nodes", "Nodes"
    START = "start", "Start"
    REPLAY = "replay", "Replay"
    SETTLE = "settle", "Steady latency"
