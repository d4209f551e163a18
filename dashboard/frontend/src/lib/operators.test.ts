import { describe, expect, it } from "vitest";
import type { Problem } from "./entities.generated";
import { concerns, isGuarded, isWide, panelOf, problemsOfOperator, streamText, typeText, valueText, type OperatorInput, type OperatorProblem } from "./operators";

describe("parameters", () => {
  it("are shown as they are written", () => {
    expect(valueText(30)).toBe("30");
    expect(valueText("#(\\w+)")).toBe("#(\\w+)");
    expect(valueText(false)).toBe("no");
    expect(valueText(null)).toBe("none");
    expect(valueText(["a", 1, null])).toBe("a, 1, null");
    expect(valueText([[60, 180, 2]])).toBe("[[60,180,2]]");
    expect(valueText({ new: "old" })).toBe('{"new":"old"}');
  });
});

describe("streams and columns", () => {
  const input: OperatorInput = { from: "Parser", partitioning: "one_to_one", key: "", feedback: false, gives: { columns: [], origin: "unknown", note: "" } };
  it("have words", () => {
    expect(streamText(input)).toBe("one to one");
    expect(streamText({ ...input, partitioning: "full", key: "key", feedback: true })).toBe("full, by key, feedback");
    expect(typeText({ name: "a", type: "", masked: false })).toBe("not known");
    expect(typeText({ name: "a", type: "text", masked: true })).toBe("text, masked");
  });
});

describe("problems of an operator", () => {
  const problem = (where: string): Problem => ({ topology: "t", at: "2026-01-01T00:00:00Z", first_at: "2026-01-01T00:00:00Z", severity: "error", where, what: "x", hint: "", count: 1 });

  it("are those whose place names it", () => {
    for (const where of ["O1", "O1[3]", "replica of O1[0]"]) expect(concerns({ where }, "O1"), where).toBe(true);
    for (const where of ["O10[0]", "o1[0]", "O2[1]", "Spark job", "replica of O10[0]", "", "column O1", "O1 and others"]) expect(concerns({ where }, "O1"), where).toBe(false);
  });

  it("and those that the server names", () => {
    const problems: [string, Problem][] = [["1", problem("Source[0]")], ["2", problem("/data/a.csv")], ["3", problem("O1")]];
    const told: OperatorProblem[] = [{ ...problem("/data/a.csv"), id: 2, row: null, rows: [], known: "" }];
    expect(problemsOfOperator(problems, "Source", told).map(([key]) => key)).toEqual(["1", "2"]);
    expect(problemsOfOperator(problems, "Source", []).map(([key]) => key)).toEqual(["1"]);
  });
});

describe("the address", () => {
  it("names a tab, or the first one counts", () => {
    expect(panelOf("configuration")).toBe("configuration");
    expect(panelOf(null)).toBe("partitions");
    expect(panelOf("<b>")).toBe("partitions");
    expect([isGuarded("log"), isGuarded("configuration")]).toEqual([true, false]);
    expect([isWide("log"), isWide("configuration"), isWide(null)]).toEqual([true, false, false]);
  });
});
