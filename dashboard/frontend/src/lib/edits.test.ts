import { describe, expect, it } from "vitest";
import type { AuditEntry } from "./audit";
import { editsIn, withEdits } from "./edits";
import type { NumberedEvent } from "./entities.generated";
import { emptyState, type Entities } from "./reducer";

const entities = {
  ...emptyState().entities,
  query: new Map([["t/O4[0]", { partition: "O4[0]", topology: "t", priority: 3 }]]),
  topology: new Map([["t", { name: "t", policy: { planner: "optimal", approval: "automatic" } }]]),
} as unknown as Entities;
const event = (changes: Partial<NumberedEvent>): NumberedEvent =>
  ({ sequence: 9, at: "2026-01-31T08:00:00.5Z", kind: "query.updated", topology: "t", node: null, incident: null, actor: "kim", reason: "revenue first", changes: [{ entity: "query", key: "t/O4[0]", fields: { priority: 7 } }], ...changes }) as NumberedEvent;
const policy = event({ kind: "topology.updated", changes: [{ entity: "topology", key: "t", fields: { policy: { planner: "look_ahead", approval: "automatic" } } }] as unknown as NumberedEvent["changes"] });

describe("an edit", () => {
  it("is read off the event of it, with what was before", () => {
    expect(editsIn([event({}), policy], entities).map((one) => [one.action, one.before, one.after])).toEqual([
      ["query.priority", { "O4[0]": 3 }, { "O4[0]": 7 }],
      ["topology.policy", { planner: "optimal" }, { planner: "look_ahead" }],
    ]);
  });
  it("is none where nothing differs, or where no user asked for it", () => {
    expect(editsIn([event({ actor: "" }), event({ changes: [] }), event({ kind: "topology.metrics" })], entities)).toEqual([]);
  });
  it("that the audit trail tells as well is told once", () => {
    const [edit] = editsIn([event({})], entities);
    const entry: AuditEntry = { id: 1, at: "2026-01-31T08:00:00Z", actor: "kim", channel: "page", action: "query.priority", target: "t", before: { "O4[0]": 3 }, after: { "O4[0]": 7 }, reason: "revenue first" };
    expect(withEdits([entry], [edit!])).toEqual([entry]);
    expect(withEdits([{ ...entry, at: "2026-01-31T07:00:00Z" }], [edit!]).length, "the same an hour ago is another one").toBe(2);
  });
});
