import { describe, expect, it } from "vitest";
import { bucketWords, pointsOf, type Course } from "./course";

const at = (second: number): string => new Date(second * 1000).toISOString();
const course = (moments: number[]): Course => ({
  seconds: 10, since: at(0), until: at(100), at: moments.map(at),
  figures: { lag: { unit: "s", mean: moments.map((_, index) => index + 0.5), low: moments.map(() => 0), high: moments.map((_, index) => (index ? 9 : null)) } },
});

describe("figures over time", () => {
  it("are points where they follow each other", () => {
    const { times, lines } = pointsOf(course([0, 10, 20]));
    expect(times).toEqual([0, 10, 20]);
    expect(lines["lag"]?.mean).toEqual([0.5, 1.5, 2.5]);
    expect(lines["lag"]?.high).toEqual([null, 9, 9]);
  });

  it("have a gap where nothing was measured", () => {
    const { times, lines } = pointsOf(course([0, 10, 60, 70]));
    expect(times).toEqual([0, 10, 20, 60, 70]);
    expect(lines["lag"]?.mean).toEqual([0.5, 1.5, null, 2.5, 3.5]);
  });

  it("may be none", () => {
    expect(pointsOf(course([]))).toEqual({ times: [], lines: { lag: { unit: "s", mean: [], low: [], high: [] } } });
    expect([10, 60, 600, 17_400].map(bucketWords)).toEqual(["10 s", "1 min", "10 min", "4.8 h"]);
  });
});
