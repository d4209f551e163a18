import { describe, expect, it } from "vitest";
import type { Sample } from "./entities.generated";
import { stepsOf } from "./steps";

const sample = (at: number, available: number): Sample =>
  ({ topology: "t", at: new Date(at * 1000).toISOString(), available, total: 5, weighted: available / 5, tentative: 0 }) as Sample;
const shown = (samples: Sample[], from?: number, to?: number): [number, number][] => stepsOf(samples, from, to).map((one) => [Date.parse(one.at) / 1000, one.available]);

describe("the curve of availability", () => {
  it("is of all samples, in their order", () => {
    expect(shown([sample(20, 4), sample(10, 5)])).toEqual([[10, 5], [20, 4]]);
  });
  it("begins where it should, if the first sample there was left out because it says nothing new", () => {
    const healthy = [sample(0, 5), sample(1000, 5), sample(1001, 5)];
    expect(shown(healthy, 100)).toEqual([[100, 5], [1000, 5], [1001, 5]]);
    expect(shown(healthy, 100, 500)).toEqual([[100, 5]]);
    expect(shown(healthy, 1000)).toEqual([[1000, 5], [1001, 5]]);
  });
  it("begins with the first sample, if the one before says something else: there was none in between", () => {
    expect(shown([sample(0, 3), sample(1000, 5)], 100)).toEqual([[1000, 5]]);
  });
  it("begins with the first sample of all", () => {
    expect(shown([sample(50, 5), sample(60, 5)], 10)).toEqual([[50, 5], [60, 5]]);
  });
  it("is empty after the last one", () => {
    expect(shown([sample(50, 5)], 60)).toEqual([]);
    expect(shown([], 60)).toEqual([]);
  });
});
