import { describe, expect, it } from "vitest";
import { delayWords, GROUPS, type Settings } from "./settings";

const SETTINGS: Settings = {
  session_timeout: 4, heartbeat_interval: 1, fault_injection: true, replacement_delay: "uniform:120:360", correlation_window: 10,
  correlation_threshold: 2, max_utilisation: 0.8, overload_after: 5, slow_after: 20, forget_nodes_after: 86_400, rack_price: 0.1, moves_at_once: 200, theta: 1.2, checkpoint_interval: 10,
};

describe("settings", () => {
  it("explains every threshold there is, once", () => {
    const named = GROUPS.flatMap((group) => group.thresholds.map((one) => one.name));
    expect([...named].sort()).toEqual(Object.keys(SETTINGS).sort());
  });
  it("says the effect of the value in force", () => {
    const effects = GROUPS.flatMap((group) => group.thresholds.map((one) => one.effect(SETTINGS))).join(" ");
    for (const part of ["after about 4 s", "Silence of 2 s", "From 2 nodes lost together", "more than 80 %", "below 1.20 times", "2 min to 6 min"]) expect(effects).toContain(part);
  });
  it("reads the provider's delay", () => {
    expect([delayWords("uniform:20:40"), delayWords("uniform:30:30"), delayWords("fixed:0.5"), delayWords("odd")]).toEqual(["20 s to 40 s", "30 s", "0.5 s", "odd"]);
  });
});
