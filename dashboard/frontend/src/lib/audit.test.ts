import { describe, expect, it } from "vitest";
import { changesOf, differences, momentOf, pageOf, placeOf, requestOf, shortly, type AuditEntry } from "./audit";

const NOW = Date.parse("2026-02-01T12:00:00Z") / 1000;
const entry = (more: Partial<AuditEntry>): AuditEntry => ({ id: 1, at: "", actor: "ada", channel: "page", action: "topology.policy", target: "hashtags", before: null, after: null, reason: "", ...more });

describe("audit", () => {
  it("asks for what the address says", () => {
    const query = new URLSearchParams("q=disk full&actor=kim&since=24h&page=3&entry=7&kiosk=1");
    const asked = new URLSearchParams(requestOf(query, NOW).split("?")[1]);
    expect(Object.fromEntries(asked)).toEqual({ search: "disk full", actor: "kim", since: "2026-01-31T12:00:00.000Z", limit: "50", offset: "100" });
  });
  it("asks for more entries from the same one on", () => {
    expect(requestOf(new URLSearchParams("page=3"), NOW, 1000)).toBe("audit/?limit=1000&offset=100");
  });
  it("passes over what makes no sense", () => {
    expect(requestOf(new URLSearchParams("since=yesterday&page=-2&actor= "), NOW)).toBe("audit/?limit=50");
    expect([pageOf(new URLSearchParams("page=x")), pageOf(new URLSearchParams("page=2.9"))]).toEqual([1, 2]);
    expect([momentOf("7d", NOW), momentOf("7w", NOW), momentOf("2026-01-05", NOW)]).toEqual(["2026-01-25T12:00:00.000Z", "", "2026-01-05T00:00:00.000Z"]);
  });
  it("finds what changed, leaf by leaf", () => {
    const before = { version: 1, spec: { operators: [{ name: "A", parallelism: 2 }, { name: "B" }], description: "x" } };
    const after = { version: 2, spec: { operators: [{ name: "A", parallelism: 4 }], description: "x", epoch_interval: 2 } };
    expect(differences(before, after).map((one) => [one.path, one.before, one.after])).toEqual([
      ["version", 1, 2], ["spec.operators[0].parallelism", 2, 4], ["spec.operators[1]", { name: "B" }, undefined], ["spec.epoch_interval", undefined, 2],
    ]);
    expect(differences({ a: [] }, { a: {} })).toEqual([{ path: "a", before: [], after: {} }]);
    expect(differences({ a: 1 }, { a: 1 })).toEqual([]);
  });
  it("shows the fields of one side where there is no other", () => {
    expect(changesOf(entry({ after: { key: "ab12" } }))).toEqual([{ path: "key", before: undefined, after: "ab12" }]);
    expect(changesOf(entry({ before: { state: "alive" } }))).toEqual([{ path: "state", before: "alive", after: undefined }]);
    expect(changesOf(entry({}))).toEqual([]);
  });
  it("keeps values short", () => {
    expect([shortly(null), shortly("a"), shortly({ a: 1 }), shortly("x".repeat(60)).length, shortly(undefined)]).toEqual(["none", "a", '{"a":1}', 42, ""]);
  });
  it("knows where a target is shown", () => {
    expect(placeOf(entry({}))).toBe("/topologies/hashtags/");
    expect(placeOf(entry({ action: "node.drain", target: "node-1" }))).toBe("/nodes/?q=node-1");
    expect(placeOf(entry({ action: "incident.abort", target: "3" }))).toBe("/incidents/3/");
    expect(placeOf(entry({ action: "token.create", target: "ada" }))).toBe("");
  });
});
