import { describe, expect, it } from "vitest";
import { backOff } from "./connection";

describe("backOff", () => {
  it("grows, with some chance in it, up to a limit", () => {
    expect([0, 1, 2, 3, 10].map((attempt) => backOff(attempt, () => 1))).toEqual([500, 1000, 2000, 4000, 10_000]);
    expect(backOff(0, () => 0)).toBe(300);
  });
});
