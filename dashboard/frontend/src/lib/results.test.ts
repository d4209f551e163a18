import { describe, expect, it } from "vitest";
import { cellText, windowSeries } from "./results";

const window = (end: string, total: number | null, count: number | null, rows = 1) => ({ start: null, end, rows, total, key: null, count });

describe("windows as series", () => {
  it("are oldest first, with rows where nothing is counted", () => {
    const series = windowSeries([window("2026-01-01T00:00:20Z", 7, 4), window("2026-01-01T00:00:10Z", null, null, 3)]);
    expect(series.times[1]! - series.times[0]!).toBe(10);
    expect(series.totals).toEqual([3, 7]);
    expect(series.largest).toEqual([null, 4]);
  });
  it("have one place for windows that end together", () => {
    const series = windowSeries([window("2026-01-01T00:00:20Z", 7, 4), window("2026-01-01T00:00:20Z", 5, 6)]);
    expect(series.totals).toEqual([12]);
    expect(series.largest).toEqual([6]);
  });
});

describe("cells", () => {
  it("are a dash where nothing is known, and never rounded", () => {
    expect(cellText(null, "number", 0)).toBe("–");
    expect(cellText(12_345, "number", 0)).toBe("12,345");
    expect(cellText(0.125, "number", 0)).toBe("0.125");
    expect(cellText("not a time", "time", 0)).toBe("not a time");
    expect(cellText("2013-07-05T12:00:00.123456Z", "time", 0)).toMatch(/^\d Jul 2013, \d\d:\d\d:00\.123456$/);
  });
});
