import { expect, test } from "vitest";
import type { Operation } from "./entities.generated";
import { newestVerification, told } from "./verification";

const operation = (changes: Partial<Operation>): Operation => ({
  id: "1", kind: "topology.verify", target: "hashtags", state: "succeeded", requested_by: "ada", reason: "audit", error: "",
  created_at: "2026-01-01T00:00:00Z", ended_at: null,
  result: { progress: null, epoch: 1200, rows: 45_000, queries: 15, exact: 15, wrong: [], left_out: [] }, ...changes,
});

test("the newest verification of the topology counts", () => {
  const rows = [
    operation({ id: "old" }),
    operation({ id: "new", created_at: "2026-01-02T00:00:00Z" }),
    operation({ id: "other", target: "trending", created_at: "2026-01-03T00:00:00Z" }),
    operation({ id: "pause", kind: "topology.pause", created_at: "2026-01-04T00:00:00Z" }),
  ];
  expect(newestVerification(rows, "hashtags")?.operation.id).toBe("new");
  expect(newestVerification(rows, "mentions")).toBeNull();
});

test("exact outputs", () => {
  const found = told(operation({}));
  expect(found).toMatchObject({ word: "Exact", tone: "good", share: null, details: [] });
  expect(found.text).toMatch(/^15 of 15 queries are exact up to epoch 1.200, 45.000 rows$/);
});

test("outputs that are wrong name their queries", () => {
  const found = told(operation({
    state: "failed", error: "1 of 15 queries is not exact: O3[0]: 2 missing (of 90 rows)",
    result: { epoch: 12, rows: 88, queries: 1, exact: 0, wrong: ["O3[0]: 2 missing (of 90 rows)"], left_out: ["X[0]: it reads from kafka"] },
  }));
  expect(found).toMatchObject({ word: "Not exact", tone: "bad" });
  expect(found.text).toBe("0 of 1 query is exact up to epoch 12, 88 rows");
  expect(found.details).toEqual(["O3[0]: 2 missing (of 90 rows)", "Not compared: X[0]: it reads from kafka"]);
});

test("what a bounded guarantee permits is measured, and no fault", () => {
  const result = { progress: null, epoch: 1200, rows: 44_000, queries: 15, exact: 13, wrong: [], left_out: ["X[0]: it reads from kafka"], deviation: 0.0123, deviating: ["O1[0]: 3 missing (of 90 rows), counted 870 of 900"] };
  const found = told(operation({ result }));
  expect(found).toMatchObject({ word: "Bounded", tone: "good", share: null });
  expect(found.text).toMatch(/^1.23 % of the rows deviate, which a bounded guarantee permits; 13 of 15 queries are exact up to epoch 1.200$/);
  expect(found.details).toEqual(["O1[0]: 3 missing (of 90 rows), counted 870 of 900", "Not compared: X[0]: it reads from kafka"]);
  expect(told(operation({ result: { ...result, deviation: 0.000002 } })).text).toMatch(/^Less than 0.01 % of the rows deviate/);
  expect(told(operation({ result: { ...result, exact: 15, deviation: 0, deviating: [] } }))).toMatchObject({ word: "Exact", tone: "good" });
});

test("outputs that cannot be read are wrong where the guarantee is bounded, too", () => {
  const result = { progress: null, epoch: 12, rows: 88, queries: 2, exact: 0, wrong: ["O2[0]: the output files cannot be read"], left_out: [], deviation: 0.1, deviating: ["O1[0]: 3 missing (of 30 rows)"] };
  const found = told(operation({ state: "failed", error: "1 of 2 queries is not comparable", result }));
  expect(found).toMatchObject({ word: "Not exact", tone: "bad", details: ["O2[0]: the output files cannot be read", "O1[0]: 3 missing (of 30 rows)"] });
});

test("one that could not be made says why", () => {
  const found = told(operation({ state: "failed", error: "the original input is gone", result: { progress: { done: 1, steps: 20 } } }));
  expect(found).toMatchObject({ word: "Not verified", tone: "bad", text: "the original input is gone" });
});

test("how far it is", () => {
  expect(told(operation({ state: "pending", result: {} }))).toMatchObject({ tone: "busy", share: null });
  expect(told(operation({ state: "running", result: {} })).text).toBe("Recomputing and comparing");
  const half = told(operation({ state: "running", result: { progress: { done: 10, steps: 20 } } }));
  expect(half).toMatchObject({ tone: "busy", share: 0.5, text: "Recomputing and comparing: step 10 of 20" });
});
