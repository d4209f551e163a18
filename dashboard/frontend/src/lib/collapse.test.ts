import { describe, expect, it } from "vitest";
import { collapse, groups, MOST_BOXES } from "./collapse";
import type { OperatorNode } from "./entities.generated";

const operator = (name: string, level: number, from: string[] = [], more: Partial<OperatorNode> = {}): OperatorNode =>
  ({
    name, kind: "filter", description: "", level, parallelism: 4, priority: 1, output: false, correlated: false, deterministic: true, determinism: "", every: "",
    inputs: from.map((one) => ({ from: one, partitioning: "full" as const, feedback: false })), ...more,
  });

const small = [operator("S", 0, [], { kind: "source" }), operator("A", 1, ["S"]), operator("B", 1, ["S"]), operator("C", 2, ["A", "B"], { output: true })];
const large = [operator("S", 0, [], { kind: "source" }), ...Array.from({ length: MOST_BOXES }, (_, i) => operator(`A${i}`, 1, ["S"])),
  ...Array.from({ length: 3 }, (_, i) => operator(`C${i}`, 2, [`A${i}`, `A${i + 1}`], { output: true }))];
const none = new Set<string>();

describe("collapse", () => {
  it("draws a small graph as it is", () => {
    expect(groups(small).size).toBe(0);
    expect(collapse(small, none, null).map((one) => [one.id, one.members.length])).toEqual([["S", 1], ["A", 1], ["B", 1], ["C", 1]]);
  });
  it("groups what is alike, and keeps what is alone", () => {
    const drawn = collapse(large, none, null);
    expect(drawn.map((one) => one.label)).toEqual(["S", `${MOST_BOXES} × filter`, "3 × filter"]);
    expect(drawn.map((one) => one.inputs.map((input) => input.from))).toEqual([[], ["S"], ["1/filter"]]);
    expect(drawn[2]?.output).toBe(true);
  });
  it("unfolds what is asked for", () => {
    const drawn = collapse(large, new Set(["2/filter/output"]), null);
    expect(drawn.map((one) => one.id)).toEqual(["S", "1/filter", "C0", "C1", "C2"]);
    expect(drawn[3]?.inputs.map((input) => input.from)).toEqual(["1/filter"]);
  });
  it("unfolds the group of what is selected", () => {
    expect(collapse(large, none, "A7").length).toBe(1 + MOST_BOXES + 1);
  });
  it("keeps a back-edge only where all of it goes back", () => {
    const looped = large.map((one) => (one.name === "A0" ? { ...one, inputs: [...one.inputs, { from: "C0", partitioning: "full" as const, feedback: true }] } : one));
    const inputs = collapse(looped, none, null)[1]?.inputs;
    expect(inputs?.map((input) => [input.from, input.feedback ?? false])).toEqual([["S", false], ["2/filter/output", true]]);
  });
});
