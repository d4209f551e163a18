import { describe, expect, it } from "vitest";
import { became, lasted } from "./tentative";

describe("times of tentative output", () => {
  it("says what became of the rows", () => {
    expect(became({ stayed: 1204, changed: 63, appeared: 440, vanished: 0 })).toBe("1,204 stayed, 63 changed, 440 new");
    expect(became({ stayed: 0, changed: 0, appeared: 0, vanished: 0 })).toBe("no rows");
  });

  it("counts seconds up to the end, or up to now", () => {
    const began_at = "2026-01-01T00:00:00Z";
    expect(lasted({ began_at, ended_at: "2026-01-01T00:01:30Z" }, 0)).toBe(90);
    expect(lasted({ began_at, ended_at: null }, Date.parse(began_at) / 1000 + 5)).toBe(5);
  });
});
