import { describe, expect, it } from "vitest";
import type { EntityName, NumberedEvent, Snapshot } from "./entities.generated";
import { applyEvents, fromSnapshot } from "./reducer";

// Of each row only what these tests look at.
const snapshot = {
  sequence: 10,
  server_time: "2026-01-01T00:00:00Z",
  entities: {
    topology: { hashtags: { name: "hashtags", status: "running", input_rate: 1000 } },
    node: { "node-1": { name: "node-1", state: "alive" }, "node-2": { name: "node-2", state: "alive" } },
  },
} as unknown as Snapshot;

function event(sequence: number, entity: string, key: string, fields: Record<string, unknown> | null): NumberedEvent {
  return {
    sequence, at: "2026-01-01T00:00:00Z", kind: "topology.updated", topology: null, node: null, incident: null, actor: "", reason: "",
    changes: [{ entity: entity as EntityName, key, fields }],
  };
}

describe("applyEvents", () => {
  it("merges fields and leaves the others as they were", () => {
    const before = fromSnapshot(snapshot);
    const { state, gap, touched } = applyEvents(before, [event(11, "topology", "hashtags", { status: "degraded" })], 10, 11);
    expect(gap).toBe(false);
    expect(state.sequence).toBe(11);
    expect(state.entities.topology.get("hashtags")).toEqual({ name: "hashtags", status: "degraded", input_rate: 1000 });
    expect([...touched]).toEqual(["topology"]);
    expect(state.entities.node).toBe(before.entities.node);
  });

  it("does not change the state it was given", () => {
    const before = fromSnapshot(snapshot);
    applyEvents(before, [event(11, "node", "node-1", { state: "lost" })], 10, 11);
    expect(before.entities.node.get("node-1")?.state).toBe("alive");
  });

  it("adds what it has not seen and removes what is null", () => {
    const events = [event(11, "node", "node-3", { name: "node-3", state: "joining" }), event(12, "node", "node-2", null)];
    const { state } = applyEvents(fromSnapshot(snapshot), events, 10, 12);
    expect([...state.entities.node.keys()]).toEqual(["node-1", "node-3"]);
  });

  it("skips events it already has", () => {
    const first = applyEvents(fromSnapshot(snapshot), [event(11, "node", "node-1", { state: "lost" })], 10, 11).state;
    const again = applyEvents(first, [event(11, "node", "node-1", { state: "alive" }), event(12, "node", "node-2", { state: "lost" })], 10, 12);
    expect(again.state.entities.node.get("node-1")?.state).toBe("lost");
    expect(again.state.entities.node.get("node-2")?.state).toBe("lost");
    expect(again.state.sequence).toBe(12);
  });

  it("refuses a range that starts after what it knows", () => {
    const before = fromSnapshot(snapshot);
    const { state, gap } = applyEvents(before, [event(13, "node", "node-1", { state: "lost" })], 12, 13);
    expect(gap).toBe(true);
    expect(state).toBe(before);
  });

  it("advances over events of topologies that are not subscribed to", () => {
    const { state, gap } = applyEvents(fromSnapshot(snapshot), [], 10, 25);
    expect(gap).toBe(false);
    expect(state.sequence).toBe(25);
  });

  it("passes over entities it does not know", () => {
    const { state } = applyEvents(fromSnapshot(snapshot), [event(11, "webhook", "1", { url: "x" })], 10, 11);
    expect(state.sequence).toBe(11);
  });

  it("gives the same state however the events are cut into messages", () => {
    const events = Array.from({ length: 40 }, (_, i) =>
      event(11 + i, i % 3 ? "node" : "topology", i % 3 ? `node-${i % 5}` : "hashtags", i % 7 === 6 ? null : { [`f${i % 4}`]: i }),
    );
    const whole = applyEvents(fromSnapshot(snapshot), events, 10, 50).state;
    let pieces = fromSnapshot(snapshot);
    for (let i = 0; i < events.length; i += 3) {
      const part = events.slice(i, i + 3);
      pieces = applyEvents(pieces, part, 10 + i, 10 + i + part.length).state;
    }
    expect(pieces).toEqual(whole);
  });

  it("keeps the newest samples only", () => {
    const events = Array.from({ length: 5_000 }, (_, i) => event(11 + i, "sample", `t/${i}`, { topology: "t", available: i }));
    const { state } = applyEvents(fromSnapshot(snapshot), events, 10, 5_010);
    expect(state.entities.sample.size).toBe(4_000);
    expect(state.entities.sample.has("t/4999")).toBe(true);
    expect(state.entities.sample.has("t/0")).toBe(false);
  });

  it.each([
    ["the newest complete checkpoint of each topology", "checkpoint", { state: "completed", epoch: 7 }, { state: "completed", epoch: 3 }, { topology: "busy", state: "failed" }],
    ["alerts that go on", "alert", { state: "firing" }, { state: "resolved" }, { state: "resolved" }],
    ["operations that have not ended", "operation", { ended_at: null }, { ended_at: "2026-01-01T00:00:00Z" }, { ended_at: "2026-01-01T00:00:00Z" }],
    ["plans of the current generation", "plan", { generation: 4 }, { generation: 3 }, { topology: "busy", generation: 4 }],
  ])("keeps %s, however old they are", (_, entity, stays, goes, other) => {
    const first = [
      event(11, "topology", "quiet", { name: "quiet", generation: 4 }),
      event(12, entity, "goes", { topology: "quiet", ...goes }),
      event(13, entity, "stays", { topology: "quiet", ...stays }),
    ];
    const others = Array.from({ length: 2_500 }, (_unused, i) => event(14 + i, entity, `other-${i}`, other));
    const { state } = applyEvents(fromSnapshot(snapshot), [...first, ...others], 10, 2_513);
    const rows = state.entities[entity as EntityName];
    expect([rows.has("stays"), rows.has("goes"), rows.has("other-0"), rows.has("other-2499")]).toEqual([true, false, false, true]);
    expect(rows.size).toBeLessThanOrEqual(2_000);
  });
});
