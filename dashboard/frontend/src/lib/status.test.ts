import { describe, expect, it } from "vitest";
import { incidentKind, stagesOf, status } from "./status";

describe("an incident", () => {
  it("that only moves partitions restores and recovers nothing", () => {
    const moving = { method: "move", state: "restoring" } as const;
    expect(stagesOf(moving).map((stage) => status(incidentKind(moving), stage).label)).toEqual(["Opened", "Moving", "Catching up", "Verifying", "Closed"]);
    expect(stagesOf({ ...moving, state: "acquiring" }), "it waits for nodes all the same").toContain("acquiring");
  });
  it("of lost nodes goes through all stages", () => {
    const lost = { method: "blocking", state: "restoring" } as const;
    expect(stagesOf(lost).map((stage) => status(incidentKind(lost), stage).label)).toEqual(["Opened", "Acquiring nodes", "Restoring", "Replaying", "Verifying", "Catching up", "Closed"]);
  });
});
