import { describe, expect, it } from "vitest";
import type { Incident, Over } from "./entities.generated";
import { about, backWords, courseOf, leftWords, overOfQuery, rangeWords } from "./forecast";

const at = (second: number): string => new Date(second * 1000).toISOString();
const over = (expected: number, low: number, high: number): Over => ({ stage: "replay", expected_at: at(expected), low_at: at(low), high_at: at(high) });

describe("forecast", () => {
  it("counts down and says when it was wrong", () => {
    const one = over(140, 125, 170);
    expect([100, 138.2, 150, 180].map((now) => leftWords(one, now))).toEqual(["in about 40 s", "in about 2 s", "at any moment", "expected 40 s ago"]);
    expect([100, 180].map((now) => backWords(one, now))).toEqual(["back in about 40 s", "not back yet, expected 40 s ago"]);
    expect([100, 130, 180].map((now) => rangeWords(one, now))).toEqual(["25 s to 1 min 10 s", "within 40 s", ""]);
  });
  it("is no more exact than what it says", () => {
    expect([0.2, 7.4, 12, 58, 158, 157, 299, 700].map(about)).toEqual(["1 s", "7 s", "10 s", "1 min", "2 min 40 s", "2 min 40 s", "5 min", "11 min 30 s"]);
  });
  it("finds the group of a query", () => {
    const incident = { forecast: { queries: [{ ...over(1, 0, 2), queries: ["t/A[0]", "t/B[0]"] }] } } as unknown as Incident;
    expect(overOfQuery([incident], "t/B[0]")?.stage).toBe("replay");
    expect(overOfQuery([incident], "t/C[0]")).toBeNull();
  });
  it("puts what came beside what was predicted", () => {
    const predicted = { ...over(140, 125, 170), kind: "wave", subject: "a/b/3", made_at: at(110), over_at: at(171) };
    const incident = { forecast: { course: [predicted, { ...predicted, kind: "incident", subject: "", over_at: null }] } } as unknown as Incident;
    const [wave, whole] = courseOf(incident, 100);
    expect(wave).toMatchObject({ what: "Plan 3 of a/b", made: 10, expected: 40, over: 71, held: false });
    expect(whole).toMatchObject({ what: "Incident", over: null, held: null });
  });
});
