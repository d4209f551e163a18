import { describe, expect, it } from "vitest";
import { judged, measured, partitionStatus, queryStatus, unmeasured } from "./figures";

describe("the figures of a topology", () => {
  it("are measured while it runs", () => {
    expect((["running", "degraded", "recovering", "deploying"] as const).every((status) => measured({ status }) && judged({ status }))).toBe(true);
  });
  it("are not shown of one that is paused, stopped, completed or a draft", () => {
    for (const status of ["paused", "stopped", "completed", "draft"] as const) {
      expect([measured({ status }), judged({ status })]).toEqual([false, false]);
      expect(unmeasured({ status })).toBe(status === "draft" ? "not deployed" : status);
    }
  });
  it("count its queries as down when it has failed", () => expect([measured({ status: "failed" }), judged({ status: "failed" })]).toEqual([false, true]));
  it("say nothing of partitions that start where nothing does", () => {
    expect(partitionStatus({ status: "stopped" }, { state: "starting" })).toBe("idle");
    expect(partitionStatus({ status: "deploying" }, { state: "starting" })).toBe("starting");
    expect(partitionStatus({ status: "paused" }, { state: "running" })).toBe("paused");
    expect(partitionStatus({ status: "paused" }, { state: "failed" })).toBe("failed");
    expect(queryStatus({ status: "draft" }, { status: "starting" })).toBe("idle");
    expect(queryStatus({ status: "paused" }, { status: "available" })).toBe("paused");
    expect(queryStatus({ status: "running" }, { status: "available" })).toBe("available");
  });
});
