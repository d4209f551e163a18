import { describe, expect, it } from "vitest";
import { lateAfter, outlookOf, partsOf, together, took, type CheckpointDetail } from "./checkpoints";
import type { Checkpoint } from "./entities.generated";

const at = (second: number): string => new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString();
const row = (epoch: number, state: Checkpoint["state"], more: Partial<Checkpoint> = {}): Checkpoint => ({
  topology: "t", epoch, generation: 1, state, stored: state === "completed", acknowledged: 3, total: 3, size_bytes: 100 * epoch, started_at: at(epoch), ended_at: state === "started" ? null : at(epoch + 2),
  restored_at: null, cause: "", requested_by: "", refusals: {}, ...more,
});

describe("checkpoints", () => {
  const rows = [row(3, "started"), row(1, "completed", { restored_at: at(30) }), row(2, "failed", { cause: "disk full" }), row(0, "completed", { restored_at: at(20) })];

  it("finds the newest of each kind", () => {
    const found = outlookOf("t", rows);
    expect([found.kept, found.completed, found.failed]).toEqual([4, 2, 1]);
    expect([found.pending?.epoch, found.complete?.epoch, found.failure?.cause, found.restored?.epoch]).toEqual([3, 1, "disk full", 1]);
    expect([found.durations, found.sizes]).toEqual([[2, 2], [0, 100]]);
  });
  it("calls late by the topology's own interval, else by the installation's", () => {
    expect([lateAfter({ checkpoint_interval: 60 }), lateAfter({ checkpoint_interval: null }), lateAfter(undefined)]).toEqual([240, 40, 40]);
  });

  it("knows nothing of a topology without any", () => {
    const found = outlookOf("t", []);
    expect([found.kept, found.newest, found.complete, found.failure, found.restored]).toEqual([0, undefined, undefined, undefined, undefined]);
  });
  it("adds topologies up, and takes the newest of all", () => {
    const other = outlookOf("u", [row(9, "completed"), row(4, "failed", { cause: "gone" })]);
    const all = together([outlookOf("t", rows), other]);
    expect([all.kept, all.completed, all.failed, all.complete?.epoch, all.failure?.cause]).toEqual([6, 3, 2, 9, "gone"]);
  });
  it("counts the time of one that goes on", () => {
    expect(took(rows[0]!, Date.parse(at(10)) / 1000)).toBe(7);
    expect(took(rows[1]!, 0)).toBe(2);
  });
  it("tells every partition's part", () => {
    const ack = { partition: "A[0]", node: "n1", size_bytes: 1, uploaded_bytes: 1, files: 1, alignment: 0.2, waited: 0, duration: 0.1, error: "" };
    const detail: CheckpointDetail = { ...row(2, "failed"), acknowledgements: [ack, { ...ack, partition: "B[0]", error: "full" }], missing: ["C[0]"] };
    expect(partsOf(detail).map((part) => [part.partition, part.state])).toEqual([["A[0]", "stored"], ["B[0]", "failed"], ["C[0]", "missing"]]);
  });
});
