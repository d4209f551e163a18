// One vocabulary for every status: a tone (colour), a shape (for those who do not see the colour) and a word.

import type { Savepoint } from "./savepoints";
import type {
  AlertSeverity, AlertState, CheckpointState, Incident, IncidentState, OperationState, PlanState, Severity,
} from "./entities.generated";
import type { PartitionStatus } from "./figures";
import { humanise } from "./format";

export type Tone = "good" | "busy" | "warn" | "bad" | "idle";
export type Shape = "dot" | "ring" | "half" | "triangle" | "cross" | "square" | "check";

export interface Status {
  tone: Tone;
  shape: Shape;
  label: string;
  /** 0 is what an operator must see first. */
  rank: number;
}

const good = (label?: string): Partial<Status> => ({ tone: "good", shape: "dot", rank: 6, label });
const busy = (label?: string): Partial<Status> => ({ tone: "busy", shape: "half", rank: 3, label });
const warn = (label?: string): Partial<Status> => ({ tone: "warn", shape: "triangle", rank: 2, label });
const bad = (label?: string): Partial<Status> => ({ tone: "bad", shape: "cross", rank: 0, label });
const idle = (label?: string): Partial<Status> => ({ tone: "idle", shape: "ring", rank: 8, label });
const done = (label?: string): Partial<Status> => ({ tone: "idle", shape: "check", rank: 7, label });

/** Every status the server tells, and those of this page: `proposed` and `caught_up` plans, and parts of a checkpoint.
 * Topologies, queries, nodes and incidents have a `health` with the server's word (`health.ts`); of incidents there are
 * the stages here that they go through. */
interface Statuses {
  partition: PartitionStatus;
  incident: IncidentState;
  moves: IncidentState;
  plan: PlanStatus;
  savepoint: Savepoint["state"];
  checkpoint: CheckpointState;
  part: PartState;
  operation: OperationState;
  problem: Severity;
  alert: AlertLook;
}

export type PlanStatus = PlanState | "proposed" | "catching_up" | "caught_up";
/** One that fires looks like its severity. */
export type AlertLook = Exclude<AlertState, "firing"> | AlertSeverity;
export type PartState = "stored" | "failed" | "missing";
export type StatusKind = keyof Statuses;

const INCIDENT: Record<IncidentState, Partial<Status>> = {
  open: bad("Opened"), acquiring: busy("Acquiring nodes"), restoring: busy(), replaying: busy(), verifying: busy(), catching_up: busy("Catching up"),
  closed: done("Closed"), aborted: { ...idle(), shape: "square" },
};

const VOCABULARY: { [K in StatusKind]: Record<Statuses[K], Partial<Status>> } = {
  partition: { starting: busy(), running: good(), stalled: warn(), failed: bad(), restoring: busy(), replaying: busy(), failing: bad(), paused: idle(), idle: idle("Not running") },
  incident: INCIDENT,
  moves: { ...INCIDENT, restoring: busy("Moving"), replaying: busy("Catching up") },
  plan: { proposed: warn("Waits for approval"), planned: idle(), published: busy(), applied: busy("Replaying"), catching_up: busy(), caught_up: good(), verified: done(), superseded: { ...idle(), shape: "square" } },
  savepoint: { making: busy("Being made"), complete: good(), failed: bad() },
  checkpoint: { started: busy("In progress"), completed: good(), failed: bad(), undone: { ...idle(), shape: "square" } },
  part: { stored: good(), failed: bad("Not stored"), missing: warn("No answer") },
  operation: { pending: idle(), running: busy(), succeeded: done(), failed: bad() },
  problem: { warning: warn(), error: bad() },
  alert: { critical: bad(), warning: warn(), pending: busy(), missing: { ...idle("No data"), rank: 4 }, resolved: done("Ended") },
};

/** The look of a status. One that a newer server tells and this page does not know has its name as its label. */
export function status(kind: StatusKind, value: string | null | undefined): Status {
  const looks: Record<string, Partial<Status>> = VOCABULARY[kind];
  const found = looks[value ?? ""];
  return { tone: found?.tone ?? "idle", shape: found?.shape ?? "ring", label: found?.label ?? humanise(value), rank: found?.rank ?? 5 };
}

const STAGES = ["open", "acquiring", "restoring", "replaying", "verifying", "catching_up", "closed"] as const satisfies readonly IncidentState[];
type Shown = Pick<Incident, "method" | "state">;
export const incidentKind = (incident: Shown): "incident" | "moves" => (incident.method === "move" ? "moves" : "incident");
/** The states it goes through. One that only moves partitions asks for no node. */
export const stagesOf = (incident: Shown): readonly IncidentState[] =>
  STAGES.filter((stage) => (stage !== "acquiring" && stage !== "catching_up") || incident.method !== "move" || incident.state === stage);
