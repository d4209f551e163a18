import { describe, expect, it } from "vitest";
import { age, byName, bytes, duration, rate, rateShort, relative, stopwatch, tidy } from "./format";

describe("format", () => {
  it("shows what is not known as a dash", () => {
    for (const format of [rate, bytes, duration, relative, age]) expect(format(null)).toBe("–");
  });
  it("rounds percentages inside sentences and nothing else", () => {
    expect(tidy("With 65.452 of 80 % free CPU; 14.548 % stay, at 1.25.333 and O3[0]")).toBe("With 65.5 of 80 % free CPU; 14.5 % stay, at 1.25.333 and O3[0]");
  });
  it("keeps durations short", () => {
    expect([0.24, 1.419, 42.2, 59.7, 200, 7500, 200_000].map(duration)).toEqual([
      "240 ms", "1.42 s", "42 s", "1 min 0 s", "3 min 20 s", "2 h 5 min", "2 d 7 h",
    ]);
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
  it("sorts names as people do", () => {
    expect(["O10[0]", "O2[1]", "O2[0]"].sort(byName)).toEqual(["O2[0]", "O2[1]", "O10[0]"]);
  });
});
