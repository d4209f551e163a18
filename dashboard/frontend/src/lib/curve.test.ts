import { describe, expect, it } from "vitest";
import { area, combine, type Point } from "./curve";

const at = (moment: number, weighted: number, available = 1, total = 2, tentative = 0): Point => ({ at: moment, weighted, available, total, tentative });

describe("combine", () => {
  it("leaves a single curve as it is", () => {
    expect(combine([{ weight: 3, points: [at(0, 1), at(1, 0.5)] }, { weight: 1, points: [] }])).toEqual([at(0, 1), at(1, 0.5)]);
  });
  it("weighs topologies by their priorities, from when both are known", () => {
    const curve = combine([{ weight: 3, points: [at(0, 1), at(2, 0)] }, { weight: 1, points: [at(1, 1, 2)] }]);
    expect(curve).toEqual([at(1, 1, 3, 4), at(2, 0.25, 3, 4)]);
  });
  it("adds up queries with tentative output", () => {
    const curve = combine([{ weight: 1, points: [at(0, 1, 1, 2, 1)] }, { weight: 1, points: [at(1, 1, 0, 2, 2)] }]);
    expect(curve).toEqual([at(1, 1, 1, 4, 3)]);
  });
});

describe("area", () => {
  it("is the mean of the steps", () => {
    // Half the time nothing, half the time half of the priority.
    expect(area([at(-5, 1), at(0, 0), at(50, 0.5)], 0, 100)).toBeCloseTo(0.25);
  });
  it("takes the level at the beginning from before it", () => {
    expect(area([at(-5, 0.4)], 0, 10)).toBeCloseTo(0.4);
  });
  it("is not known where nothing was sampled", () => {
    expect(area([], 0, 10)).toBeNull();
    expect(area([at(0, 1)], 10, 10)).toBeNull();
  });
});
