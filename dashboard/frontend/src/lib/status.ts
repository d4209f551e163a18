// One vocabulary for every status: a tone (colour), a shape (for those who do not see the colour) and a word.

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

const VOCABULARY: Record<string, Record<string, Partial<Status>>> = {
  topology: {
    draft: idle(), deploying: busy(), running: good(), degraded: warn(), recovering: busy(), paused: idle(),
    completed: done(), failed: bad(), stopping: busy(), stopped: { ...idle(), shape: "square" },
  },
  partition: { starting: busy(), running: good(), stalled: warn(), failed: bad(), restoring: busy(), replaying: busy() },
  query: { starting: busy(), available: good(), failed: bad(), recovering: busy(), completed: done() },
  node: {
    requested: idle(), joining: busy(), alive: good(), suspect: warn(), lost: bad(), draining: warn(),
    left: { ...idle(), shape: "square" },
  },
  incident: {
    open: bad("Opened"), acquiring: busy("Acquiring nodes"), restoring: busy(), replaying: busy(), verifying: busy(),
    closed: done("Recovered"), aborted: { ...idle(), shape: "square" },
  },
  plan: { proposed: warn("Waits for approval"), planned: idle(), published: busy(), applied: busy("Replaying"), caught_up: good(), verified: done(), superseded: { ...idle(), shape: "square" }, failed: bad() },
  checkpoint: { started: busy("In progress"), acknowledged: busy(), completed: good(), failed: bad(), undone: { ...idle(), shape: "square" } },
  part: { stored: good(), failed: bad("Not stored"), missing: warn("No answer") },
  operation: { pending: idle(), running: busy(), succeeded: done(), failed: bad() },
  problem: { warning: warn(), error: bad() },
};

export function status(kind: keyof typeof VOCABULARY, value: string | null | undefined): Status {
  const found = VOCABULARY[kind]?.[value ?? ""];
  return { tone: found?.tone ?? "idle", shape: found?.shape ?? "ring", label: found?.label ?? humanise(value), rank: found?.rank ?? 5 };
}

export const INCIDENT_STATES = ["open", "acquiring", "restoring", "replaying", "verifying", "closed"] as const;
export const incidentIsOpen = (state: string): boolean => state !== "closed" && state !== "aborted";

/** The tone of a relative latency against theta, the limit below which a query is available. */
export function latencyTone(value: number | null | undefined, theta: number): Tone {
  if (value === null || value === undefined) return "idle";
  if (value < theta) return "good";
  return value < theta * 2 ? "warn" : "bad";
}
