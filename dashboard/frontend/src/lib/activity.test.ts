import { describe, expect, it } from "vitest";
import type { AuditEntry } from "./audit";
import { editActivity } from "./activity";

const entry = (changes: Partial<AuditEntry>): AuditEntry => ({ id: 7, at: "2026-01-31T08:00:00Z", actor: "kim", channel: "page", action: "query.priority", target: "hashtags", before: { "O4[0]": 3 }, after: { "O4[0]": 7 }, reason: "revenue first", ...changes });

describe("an edit in the audit trail", () => {
  it("tells who changed what and why", () => {
    expect(editActivity(entry({})).map((one) => [one.text, one.detail])).toEqual([["Priority changed", "O4[0]: 3 → 7, by kim: revenue first"]]);
    expect(editActivity(entry({ action: "topology.policy", before: { planner: "optimal" }, after: { planner: "greedy" } }))[0]?.detail).toBe("Planner: optimal → greedy, by kim: revenue first");
    expect(editActivity(entry({ action: "topology.update", before: { name: "a" }, after: { name: "b" } }))[0]?.detail).toBe("by kim: revenue first");
  });
  it("is left out where an operation tells the same", () => {
    expect(editActivity(entry({ action: "topology.deploy", after: { operation: "1" } }))).toEqual([]);
  });
});
