import { describe, expect, it } from "vitest";
import { isGuarded, isWide, panelOf, streamText, typeText, valueText, type OperatorInput } from "./operators";

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

describe("the address", () => {
  it("names a tab, or the first one counts", () => {
    expect(panelOf("configuration")).toBe("configuration");
    expect(panelOf(null)).toBe("partitions");
    expect(panelOf("<b>")).toBe("partitions");
    expect([isGuarded("log"), isGuarded("configuration")]).toEqual([true, false]);
    expect([isWide("log"), isWide("configuration"), isWide(null)]).toEqual([true, false, false]);
  });
});
