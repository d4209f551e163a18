import { describe, expect, it } from "vitest";
import type { Partition, Topology, TopologyStatus } from "./entities.generated";
import { failingPartitions, judged, measured, partitionStatus, shownPartitions, unmeasured } from "./figures";

const topology = (status: TopologyStatus, limit: number | null): Pick<Topology, "status" | "health"> =>
  ({ status, health: { state: status, word: status, tone: "good", value: limit, limit, note: "", since: null } });

describe("the figures of a topology", () => {
  it("are shown where the server judges its queries", () => {
    expect([measured(topology("running", 15)), judged(topology("running", 15))]).toEqual([true, true]);
    expect([measured(topology("failed", 15)), judged(topology("failed", 15))]).toEqual([false, true]);
  });
  it("are not shown of one that is paused, stopped, completed or a draft", () => {
    for (const status of ["paused", "stopped", "completed", "draft"] as const) {
      expect([measured(topology(status, null)), judged(topology(status, null))]).toEqual([false, false]);
      expect(unmeasured(topology(status, null))).toBe(status === "draft" ? "not deployed" : status);
    }
  });
  it("show as failing what the driver says fails now, and nothing that failed before", () => {
    const problems: [string, { where: string; what: string }][] = [["1", { where: "V[0]", what: "no column x" }], ["2", { where: "V[1]", what: "an older fault" }], ["3", { where: "V", what: "" }]];
    const failing = failingPartitions("no column x", problems);
    expect([...failing]).toEqual(["V[0]"]);
    expect([...failingPartitions("", problems)]).toEqual([]);
    const partitions = ["V[0]", "V[1]"].map((partition) => ({ partition, state: "replaying" }) as Partition);
    expect(shownPartitions(topology("degraded", 0), partitions, failing).map((one) => one.state)).toEqual(["failing", "replaying"]);
    expect(shownPartitions(topology("stopped", null), partitions, failing).map((one) => one.state)).toEqual(["idle", "idle"]);
  });
  it("say nothing of partitions that start where nothing does", () => {
    expect(partitionStatus(topology("stopped", null), { state: "starting" })).toBe("idle");
    expect(partitionStatus(topology("deploying", null), { state: "starting" })).toBe("starting");
    expect(partitionStatus(topology("paused", null), { state: "running" })).toBe("paused");
    expect(partitionStatus(topology("paused", null), { state: "failed" })).toBe("failed");
  });
});
