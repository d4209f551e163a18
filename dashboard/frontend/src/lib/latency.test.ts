import { describe, expect, it } from "vitest";
import { judge, worstQuery } from "./latency";

describe("a relative latency", () => {
  it("of an available query is not red in peace, and no limit stands beside it", () => {
    const found = judge({ available: true, relative_latency: 2.67 }, false);
    expect([found.limit, found.tone, found.words]).toEqual([null, "warn", "slower than usual, and available"]);
  });
  it("of an available query has a higher limit during an incident than that of one to come back", () => {
    expect(judge({ available: true, relative_latency: 1.3 }, true)).toEqual({ limit: 1.5, tone: "warn", words: "available up to 1.50×" });
    expect(judge({ available: false, relative_latency: 1.3 }, true)).toEqual({ limit: 1.2, tone: "warn", words: "not available; back below 1.20×" });
  });
  it("of a query that is far from coming back is red", () => expect(judge({ available: false, relative_latency: 9 }, false).tone).toBe("bad"));
  it("is the worst of those that are measured", () => {
    expect(worstQuery([{ available: true, relative_latency: null }, { available: true, relative_latency: 1.1 }, { available: false, relative_latency: 3 }])?.relative_latency).toBe(3);
    expect(worstQuery([])).toBeNull();
  });
});
