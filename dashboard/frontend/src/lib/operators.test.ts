import { describe, expect, it } from "vitest";
import type { Problem } from "./entities.generated";
import { columnsShown, concerns, isGuarded, isWide, panelOf, partitionOf, problemsOfOperator, rowValueText, streamText, typeText, valueText, type OperatorInput, type OperatorProblem, type OperatorRows } from "./operators";

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

describe("values of a row", () => {
  it("are times where the engine has microseconds", () => {
    expect(rowValueText("ts", 1764159000000000)).toBe("2025-11-26T12:10:00.000Z");
    expect(rowValueText("ts", "•••")).toBe("•••");
    expect(rowValueText("ts", 9e18)).toBe("9000000000000000000");
    expect(rowValueText("count", 1764159000000000)).toBe("1764159000000000");
    expect(rowValueText("text", null)).toBe("none");
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
    for (const where of ["O1", "O1[3]", "replica of O1[0]", "O1[2]: a.csv, row 7"]) expect(concerns({ where }, "O1"), where).toBe(true);
    for (const where of ["O10[0]", "o1[0]", "O2[1]", "Spark job", "replica of O10[0]", "", "column O1", "O1 and others"]) expect(concerns({ where }, "O1"), where).toBe(false);
  });

  it("and those that the server names", () => {
    const problems: [string, Problem][] = [["1", problem("Source[0]")], ["2", problem("/data/a.csv")], ["3", problem("O1")]];
    const told: OperatorProblem[] = [{ ...problem("/data/a.csv"), id: 2, row: null, rows: [], known: "" }];
    expect(problemsOfOperator(problems, "Source", told).map(([key]) => key)).toEqual(["1", "2"]);
    expect(problemsOfOperator(problems, "Source", []).map(([key]) => key)).toEqual(["1"]);
  });
});

describe("columns", () => {
  const rows: OperatorRows = { topology: "t", partition: "O[0]", origin: "sample", note: "", epoch: 1, at: null, columns: [{ name: "a", type: "text", masked: true }], rows: [] };
  const unknown = { columns: [], origin: "unknown" as const, note: "Its query decides." };
  it("are those of the rows where the specification does not know them", () => {
    expect(columnsShown(unknown, rows)).toEqual({ columns: rows.columns, origin: "rows", note: "As its newest rows have them." });
    expect(columnsShown(unknown, null)).toBe(unknown);
    expect(columnsShown(unknown, { ...rows, columns: [] })).toBe(unknown);
    const known = { columns: [{ name: "key", type: "text" as const, masked: false }], origin: "kind" as const, note: "" };
    expect(columnsShown(known, rows)).toBe(known);
  });
});

describe("the address", () => {
  it("names a tab, or the first one counts", () => {
    expect(panelOf("configuration")).toBe("configuration");
    expect(panelOf(null)).toBe("partitions");
    expect(panelOf("<b>")).toBe("partitions");
    expect([isGuarded("log"), isGuarded("configuration")]).toEqual([true, false]);
    expect([isWide("log"), isWide("rows"), isWide("configuration"), isWide(null)]).toEqual([true, true, false, false]);
  });

  it("names a partition, if there is one of that number", () => {
    expect([partitionOf(null, 4), partitionOf("3", 4), partitionOf("4", 4), partitionOf("-1", 4), partitionOf("1e1", 40), partitionOf("x", 4)]).toEqual([0, 3, 0, 0, 0, 0]);
  });
});
