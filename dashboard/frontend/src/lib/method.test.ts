import { describe, expect, it } from "vitest";
import type { Topology } from "./entities.generated";
import { recoveredBy, recoveryOf, recoveryWords } from "./method";

const topology = (name: string, policy: Partial<Topology["policy"]> = {}, deterministic = true): Topology =>
  ({ name, policy: { method: "auto", rollback: "ancestors", correlation_threshold: null, ...policy }, graph: { operators: [{ deterministic }] } }) as unknown as Topology;
const WAVES = "in waves (incremental)";
const ONCE = "all at once (blocking)";
const ROOM = "in waves if everything that is lost fits on the other nodes, else all at once";

describe("the method", () => {
  it("is the policy's, if that names one", () => {
    expect(recoveredBy(topology("a", { method: "blocking" }), 9, 2)).toBe(ONCE);
    expect(recoveredBy(topology("a", { method: "incremental", rollback: "global" }), 1, 2)).toBe(WAVES);
  });
  it("goes by the failure where a wave puts back what runs", () => {
    expect(recoveredBy(topology("a"), 1, 2), "it does not").toBe(WAVES);
    expect(recoveredBy(topology("a", { rollback: "global" }), 1, 2)).toBe(ROOM);
    expect(recoveredBy(topology("a", {}, false), 1, 2)).toBe(ROOM);
    expect(recoveredBy(topology("a", {}, false), 2, 2)).toBe(WAVES);
    expect(recoveredBy(topology("a", { rollback: "global", correlation_threshold: 4 }), 3, 2), "its own threshold").toBe(ROOM);
  });
  it("is said once, or for each topology", () => {
    expect(recoveryOf([], 1, 2)).toBe("nothing to recover");
    expect(recoveryOf([topology("a"), topology("b")], 1, 2)).toBe(WAVES);
    expect(recoveryOf([topology("a"), topology("b", { method: "blocking" })], 1, 2)).toBe(`a ${WAVES}; b ${ONCE}`);
  });
  it("of an incident that only moved partitions is no recovery", () => {
    expect([recoveryWords("move"), recoveryWords("blocking")]).toEqual(["Moves", "Blocking recovery"]);
  });
});
