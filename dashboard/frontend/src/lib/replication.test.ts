import { describe, expect, it } from "vitest";
import type { Partition, Policy } from "./entities.generated";
import { addressOf, nextWords, protections, questionFrom, replicaChanges, replicaOf, replicaState, replicaWords, requestOf, type ReplicationPlan } from "./replication";
import type { CheckpointDetail } from "./checkpoints";

describe("a question about replicas", () => {
  it("is the same after it went through an address", () => {
    for (const question of [{ budget: 12, planner: "greedy" }, { budget: 0, planner: null }, { budget: null, planner: "greedy" }]) {
      const query = new URLSearchParams();
      for (const [name, value] of Object.entries(addressOf(question))) if (value !== null) query.set(name, value);
      expect(questionFrom(query)).toEqual(question);
    }
  });
  it("has no address where it is as always", () => {
    expect(addressOf(questionFrom(new URLSearchParams()))).toEqual({ budget: null, planner: null });
  });
  it("leaves out a budget that is no number", () => {
    for (const budget of ["", "-1", "many", "1.5", "9999999"]) expect(questionFrom(new URLSearchParams({ budget })).budget).toBeNull();
  });
  it("is sent with its planner", () => {
    expect(requestOf("a b", { budget: 3, planner: "greedy" })).toBe("topologies/a%20b/replication-plan/?budget=3&planner=greedy");
    expect(requestOf("t", { budget: null, planner: null })).toBe("topologies/t/replication-plan/");
  });
});

describe("turning replicas on and off", () => {
  const policy = { replication_mode: "advise", replication_budget: null, replication_planner: "structure_aware" } as Policy;
  const usual = { budget: null, planner: null };
  it("leaves budget and planner as they are unless the plan was asked for with others", () => {
    expect(replicaChanges(policy, usual, "on")).toEqual({ replication_mode: "on" });
    expect(replicaChanges(policy, { budget: 6, planner: "greedy" }, "on")).toEqual({ replication_mode: "on", replication_budget: 6, replication_planner: "greedy" });
    expect(replicaChanges(policy, { budget: 6, planner: "greedy" }, "off")).toEqual({ replication_mode: "off" });
  });
  it("changes nothing where it is so", () => {
    const on = { ...policy, replication_mode: "on", replication_budget: 6 } as Policy;
    expect(replicaChanges(on, { budget: 6, planner: "structure_aware" }, "on")).toEqual({});
    expect(replicaChanges(on, { budget: 0, planner: null }, "on")).toEqual({ replication_budget: 0 });
  });
});

describe("what the next replica would buy", () => {
  const next = { budget: 7, more: 1, fidelity: 0.9, gain: 0.034, added: ["A[0]"], dropped: [] };
  it("is told with what it takes", () => {
    expect(nextWords(next)).toBe("1 replica more: 3.4 % more of the output in the worst case (A[0])");
    expect(nextWords({ ...next, added: ["A[0]", "B[0]"], dropped: ["C[0]"] })).toMatch(/\(A\[0\], B\[0\] instead of C\[0\]\)$/);
    expect(nextWords({ ...next, more: 6, added: ["a", "b", "c", "d", "e"] })).toMatch(/^6 replicas more: .* \(a, b, c, d and 1 more\)$/);
    expect(nextWords({ ...next, more: 6, gain: 0, added: [] })).toBe("up to 6 replicas more would gain nothing");
  });
});

describe("what protects a partition", () => {
  const partition = (name: string) => ({ partition: name }) as Partition;
  const plan = { chosen: [{ partition: "A[0]", step: 1 }] } as unknown as ReplicationPlan;
  it("is its part of the checkpoint, and its place in the plan", () => {
    const checkpoint = { acknowledgements: [{ partition: "A[0]", size_bytes: 7 }] } as unknown as CheckpointDetail;
    const [first, second] = protections([partition("A[0]"), partition("A[1]")], plan, checkpoint);
    expect([first!.stored, first!.chosen?.step]).toEqual([7, 1]);
    expect([second!.stored, second!.chosen]).toEqual([null, undefined]);
  });
  it("is not known without a checkpoint", () => {
    expect(protections([partition("A[0]")], plan, null)[0]!.stored).toBeNull();
  });
});

describe("the state of a replica", () => {
  const row = { partition: "A[0]", node: "n1", replica: "n2", wanted: true, caught_up: true, acts: false };
  it("says what it could do now", () => {
    expect(replicaState(row).word).toBe("ready");
    expect(replicaState({ ...row, caught_up: false }).word).toBe("catching up");
    expect(replicaState({ ...row, wanted: false }).word).toBe("to go");
    expect(replicaState({ ...row, acts: true }).word).toBe("acts");
  });
});

describe("the replica of a partition", () => {
  const topology = { shadows: { "A[0]": { node: "n3", caught_up: true }, "B[0]": { node: "n4", caught_up: false }, "C[0]": { node: "n5", caught_up: true } }, acting: { "C[0]": "n4" } };
  it("is ready, behind, or acts", () => {
    const words = ["A[0]", "B[0]", "C[0]"].map((one) => replicaWords(replicaOf(topology, one)!));
    expect(words).toEqual(["ready on n3", "catching up on n4", "acts on n4"]);
    expect(replicaOf(topology, "D[0]")).toBeNull();
  });
});
