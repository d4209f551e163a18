// What happened to a topology, newest first, read off the entities that already tell it.

import { changesOf, shortly, type AuditEntry } from "./audit";
import type { Edit } from "./edits";
import { humanise, plural } from "./format";
import { paths } from "./router.svelte";
import { checkpointsOf, problemsOf } from "./select";
import { look } from "./health";
import { status, type Status } from "./status";
import { store } from "./store.svelte";

const OPENED: Status = { tone: "bad", shape: "cross", label: "Opened", rank: 0 };

export interface Activity {
  key: string;
  at: string;
  text: string;
  detail: string;
  look: Status;
  href?: string;
}

const PLANS: Record<string, string> = { deploy: "deployed", recover: "recovers", restore: "restores", move: "moves" };

const EDITS: Record<string, string> = { "topology.policy": "Policy changed", "query.priority": "Priority changed", "topology.update": "New version", "topology.create": "Created" };

/** A change that is no operation: of the policy, of priorities, of the specification. The audit trail tells it. */
export function editActivity(entry: AuditEntry | Edit): Activity[] {
  const text = EDITS[entry.action];
  if (text === undefined || entry.after?.["operation"] !== undefined) return [];
  const changes = entry.action.startsWith("topology.") && entry.action !== "topology.policy" ? [] : changesOf(entry).map((one) => `${humanise(one.path)}: ${shortly(one.before)} → ${shortly(one.after)}`);
  const detail = `${changes.length ? `${changes.join(", ")}, ` : ""}by ${entry.actor}${entry.reason ? `: ${entry.reason}` : ""}`;
  const told = "id" in entry ? { key: `audit/${entry.id}`, href: paths.audit({ entry: String(entry.id), target: entry.target }) } : { key: `edit/${entry.key}`, href: paths.audit({ target: entry.topology }) };
  return [{ ...told, at: entry.at, text, detail, look: status("operation", "succeeded") }];
}

/** `edits`: of the topology, from the audit trail and from events. */
export function activityOf(topology: string, edits: readonly (AuditEntry | Edit)[] = []): Activity[] {
  const { operation, plan, incident } = store.entities;
  const items: Activity[] = edits.flatMap(editActivity);
  for (const [key, row] of operation) {
    if (row.target !== topology) continue;
    const detail = row.error || `by ${row.requested_by}${row.reason ? `: ${row.reason}` : ""}`;
    items.push({ key: `operation/${key}`, at: row.created_at, text: humanise(row.kind.replace(/^topology\./, "")), detail, look: status("operation", row.state) });
  }
  for (const [key, row] of plan) {
    if (row.topology !== topology) continue;
    const detail = row.restore.length ? `${plural(row.restore.length, "partition")}${row.kind === "move" ? "" : ` from epoch ${row.checkpoint}`}` : "";
    items.push({ key: `plan/${key}`, at: row.created_at, text: `Generation ${row.generation} ${PLANS[row.kind] ?? row.kind}`, detail, look: status("plan", row.state) });
  }
  for (const [key, row] of incident) {
    if (!row.topologies.includes(topology)) continue;
    const href = paths.incident(row.number);
    items.push({ key: `opened/${key}`, at: row.opened_at, text: `Incident ${row.number} opened`, detail: row.failed_nodes.join(", "), look: OPENED, href });
    if (row.closed_at) items.push({ key: `closed/${key}`, at: row.closed_at, text: `Incident ${row.number} ${row.health.word.toLowerCase()}`, detail: row.health.note, look: look(row), href });
  }
  for (const row of checkpointsOf(topology)) {
    if (row.state === "failed") items.push({ key: `checkpoint/${row.epoch}`, at: row.ended_at ?? row.started_at, text: `Checkpoint ${row.epoch} failed`, detail: row.cause, look: status("checkpoint", "failed") });
  }
  for (const [key, row] of problemsOf(topology)) {
    if (row.topology === topology) items.push({ key: `problem/${key}`, at: row.at, text: row.what, detail: "", look: status("problem", row.severity), href: paths.topology(topology, { tab: "errors" }) });
  }
  return items.sort((a, b) => (a.at < b.at ? 1 : -1));
}
