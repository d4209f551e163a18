import { describe, expect, it } from "vitest";
import { age, byName, bytes, clock, cores, duration, rate, rateShort, relative, spell, stopwatch } from "./format";

describe("format", () => {
  it("shows what is not known as a dash", () => {
    for (const format of [rate, bytes, duration, relative, age]) expect(format(null)).toBe("–");
  });
  it("says CPU in cores, as the planner's sentences do", () => {
    expect([0, 0.2, 3, 99.4, 99.9, 100, 181.7623, 994, 998, 3200, null].map(cores)).toEqual([
      "0 cores", "<0.01 cores", "0.03 cores", "0.99 cores", "1 core", "1 core", "1.8 cores", "9.9 cores", "10 cores", "32 cores", "–",
    ]);
  });
  it("keeps durations short", () => {
    expect([0.24, 1.419, 42.2, 59.7, 200, 3_570, 3_599.4, 3_599.6, 7500, 172_799.6, 200_000].map(duration)).toEqual([
      "240 ms", "1.42 s", "42 s", "1 min 0 s", "3 min 20 s", "59 min 30 s", "59 min 59 s", "1 h 0 min", "2 h 5 min", "2 d 0 h", "2 d 7 h",
    ]);
  });
  it("spells a setting as it was set", () => {
    expect([0.5, 4, 10, 90, 120, 3600, 5400].map(spell)).toEqual(["0.5 s", "4 s", "10 s", "1 min 30 s", "2 min", "1 h", "1 h 30 min"]);
  });
  it("keeps rates short", () => {
    expect([0, 980, 9_990, 12_420, 1_234_567].map(rate)).toEqual(["0", "980", "9,990", "12.4k", "1.23M"]);
  });
  it("keeps rates very short", () => {
    expect([0, 980, 999.7, 1_308, 12_420, 999_700, 1_234_567].map(rateShort)).toEqual(["0", "980", "1.0k", "1.3k", "12k", "1.0M", "1.2M"]);
  });
  it("uses decimal bytes", () => {
    expect([0, 999, 1500, 48_200_000].map(bytes)).toEqual(["0 B", "999 B", "1.5 KB", "48 MB"]);
  });
  it("shows ratios", () => {
    expect([1, 1.204, 25.31, 312, 4000].map(relative)).toEqual(["1.00×", "1.20×", "25.3×", "312×", ">999×"]);
  });
  it("counts an incident's time", () => {
    expect([7, 725, 3800].map(stopwatch)).toEqual(["0:07", "12:05", "1:03:20"]);
  });
  it("says of a time what is needed to know which one it is", () => {
    const now = new Date(2026, 0, 2, 12, 0, 0).getTime() / 1000;
    const times = [new Date(2026, 0, 2, 0, 0, 5), new Date(2026, 0, 1, 23, 59, 59), new Date(2025, 11, 31, 23, 59, 59), new Date(2013, 6, 5, 14, 0, 0)];
    expect(times.map((time) => clock(time.toISOString(), now))).toEqual(["00:00:05", "1 Jan, 23:59:59", "31 Dec 2025, 23:59:59", "5 Jul 2013, 14:00:00"]);
  });
  it("sorts names as people do", () => {
    expect(["O10[0]", "O2[1]", "O2[0]"].sort(byName)).toEqual(["O2[0]", "O2[1]", "O10[0]"]);
  });
});
