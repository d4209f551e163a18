import { describe, expect, it } from "vitest";
import type { OperatorNode, Query } from "./entities.generated";
import { closure, neighbours, partitionEdges, partitionSources, queriesLost } from "./lineage";

const operator = (name: string, parallelism: number, level: number, inputs: OperatorNode["inputs"], output = false): OperatorNode => ({
  name, kind: "map", description: "", parallelism, priority: 1, level, inputs, output, correlated: false, deterministic: true, determinism: "", every: "",
});
const operators = [
  operator("Source", 2, 0, []),
  operator("Parser", 2, 1, [{ from: "Source", partitioning: "one_to_one", feedback: false }]),
  operator("O0", 2, 2, [{ from: "Parser", partitioning: "full", feedback: false }], true),
  operator("O1", 4, 2, [{ from: "Parser", partitioning: "split", feedback: false }], true),
  operator("O2", 1, 3, [{ from: "O0", partitioning: "merge", feedback: false }], true),
];
const query = (name: string): Query => ({ partition: name }) as Query;

describe("lineage", () => {
  it("finds what an operator depends on", () => {
    expect([...closure(["O2"], neighbours(operators).upstream)].sort()).toEqual(["O0", "O2", "Parser", "Source"]);
  });
  it("follows each kind of partitioning", () => {
    const edges = partitionEdges(operators);
    expect(edges.get("Source[1]")).toEqual(["Parser[1]"]);
    expect(edges.get("Parser[1]")).toEqual(["Parser to O0", "O1[2]", "O1[3]"]);
    expect(edges.get("Parser to O0")).toEqual(["O0[0]", "O0[1]"]);
    expect(edges.get("O0[1]")).toEqual(["O2[0]"]);
  });
  it("finds what a partition depends on", () => {
    expect([...closure(["O2[0]"], partitionSources(operators))].sort()).toEqual(["O0[0]", "O0[1]", "O2[0]", "Parser to O0", "Parser[0]", "Parser[1]", "Source[0]", "Source[1]"]);
    expect([...closure(["O1[3]"], partitionSources(operators))].sort()).toEqual(["O1[3]", "Parser[1]", "Source[1]"]);
    expect(partitionSources(operators)).toBe(partitionSources(operators));
  });
  it("has as many edges as there are partitions, and not as pairs of them", () => {
    const wide = Array.from({ length: 10 }, (_, level) => operator(`L${level}`, 1_000, level, level ? [{ from: `L${level - 1}`, partitioning: "full", feedback: false }] : []));
    const edges = [...partitionEdges(wide).values()].reduce((sum, list) => sum + list.length, 0);
    expect(edges).toBe(9 * 2_000);
    expect(queriesLost(wide, ["L0[7]"], [query("L9[999]")])).toEqual(["L9[999]"]);
  });
  it("lists the queries lost with some partitions", () => {
    const queries = ["O0[0]", "O0[1]", "O1[0]", "O1[3]", "O2[0]"].map(query);
    expect(queriesLost(operators, ["O0[1]"], queries)).toEqual(["O0[1]", "O2[0]"]);
    expect(queriesLost(operators, ["Parser[0]"], queries)).toEqual(["O0[0]", "O0[1]", "O1[0]", "O2[0]"]);
  });
});
