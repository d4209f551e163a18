"""States of incidents and recovery plans, and the kinds of entries in the story."""

from __future__ import annotations

from controlplane.choices import Choices, ColouredChoices


class IncidentState(ColouredChoices):
    OPEN = "open", "red", "Open"
    ACQUIRING = "acquiring", "orange", "Acquiring nodes"
    RESTORING = "restoring", "orange", "Restoring"
    REPLAYING = "replaying", "yellow", "Replaying"
    VERIFYING = "verifying", "blue", "Verifying"
    CLOSED = "closed", "green", "Closed"
    ABORTED = "aborted", "grey", "Aborted"


INCIDENT_ENDED = frozenset({IncidentState.CLOSED, IncidentState.ABORTED})
INCIDENT_ACTIVE = frozenset(set(IncidentState) - INCIDENT_ENDED)


class IncidentTrigger(Choices):
    DETECTED = "detected", "Detected"
    MANUAL = "manual", "Manual"


class EntryKind(ColouredChoices):
    STIMULUS = "stimulus", "red", "Stimulus"
    EVIDENCE = "evidence", "orange", "Evidence"
    DECISION = "decision", "blue", "Decision"
    STEP = "step", "grey", "Step"
    OUTCOME = "outcome", "green", "Outcome"


class PlanKind(Choices):
    DEPLOY = "deploy", "Deploy"
    RECOVER = "recover", "Recover"
    RESTORE = "restore", "Restore"


class PlanState(ColouredChoices):
    PLANNED = "planned", "grey", "Planned"
    PUBLISHED = "published", "blue", "Published"
    APPLIED = "applied", "teal", "Applied"
    VERIFIED = "verified", "green", "Verified"
    SUPERSEDED = "superseded", "grey", "Superseded"


PLAN_CURRENT = frozenset({PlanState.PLANNED, PlanState.PUBLISHED, PlanState.APPLIED})
"""May still change; a later generation supersedes it."""
