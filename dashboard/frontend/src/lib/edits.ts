// Edits of policies and priorities, as the events that pass tell them; the audit trail has those of before.

import { differences, type AuditEntry } from "./audit";
import type { NumberedEvent, Query, Topology } from "./entities.generated";
import type { Entities } from "./reducer";

/** The parts of an entry of the audit trail that are shown. */
export interface Edit {
  key: string;
  at: string;
  topology: string;
  action: "topology.policy" | "query.priority";
  actor: string;
  reason: string;
  before: Record<string, unknown>;
  after: Record<string, unknown>;
}

/** What these events edit, of the rows as they were before. */
export function editsIn(events: readonly NumberedEvent[], entities: Entities): Edit[] {
  return events.flatMap((event): Edit[] => {
    if (!event.actor || event.topology === null) return [];
    const said = { at: event.at, topology: event.topology, actor: event.actor, reason: event.reason };
    if (event.kind === "query.updated") {
      const before: Record<string, unknown> = {};
      const after: Record<string, unknown> = {};
      for (const change of event.changes) {
        const [row, priority] = [entities.query.get(change.key), (change.fields as Partial<Query> | null)?.priority];
        if (change.entity !== "query" || row === undefined || priority === undefined || priority === row.priority) continue;
        before[row.partition] = row.priority;
        after[row.partition] = priority;
      }
      return Object.keys(after).length ? [{ key: String(event.sequence), action: "query.priority", before, after, ...said }] : [];
    }
    if (event.kind !== "topology.updated") return [];
    const row = entities.topology.get(event.topology);
    const told = event.changes.find((change) => change.entity === "topology" && change.key === event.topology);
    const policy = (told?.fields as Partial<Topology> | null | undefined)?.policy;
    const changed = row && policy ? differences(row.policy, policy) : [];
    if (!changed.length) return [];
    const side = (which: "before" | "after"): Record<string, unknown> => Object.fromEntries(changed.map((one) => [one.path, one[which]]));
    return [{ key: String(event.sequence), action: "topology.policy", before: side("before"), after: side("after"), ...said }];
  });
}

/** Seconds between the entry of an edit and its event, which are written together. */
const TOGETHER = 5;

/** The entries of the audit trail, and those that events have told since, each once. */
export function withEdits(entries: readonly AuditEntry[], edits: readonly Edit[]): (AuditEntry | Edit)[] {
  const words = (one: AuditEntry | Edit): string => JSON.stringify([one.action, one.actor, one.reason, one.after]);
  const known = entries.map((entry): [string, number] => [words(entry), Date.parse(entry.at)]);
  const fresh = edits.filter((edit) => !known.some(([text, at]) => text === words(edit) && Math.abs(at - Date.parse(edit.at)) < TOGETHER * 1000));
  return [...fresh, ...entries];
}
