import { describe, expect, it } from "vitest";
import type { Node } from "./entities.generated";
import { addressOf, align, bodyOf, fates, questionFrom, readSeconds, victims, withTentative, type AskedReplicas, type Question } from "./whatif";

const USUAL = ["best_density", "blocking"];
const asked: Question = {
  nodes: ["node-10", "node-2"], racks: ["rack b"], arrivals: { kind: "at", seconds: [30, 60.5] }, seed: 7, algorithms: ["optimal"], rollback: "global", replicas: 6,
};

function through(question: Question): Question {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(addressOf(question, USUAL))) if (value !== null) query.set(name, value);
  return questionFrom(new URLSearchParams(query.toString()), USUAL);
}

describe("a what-if question", () => {
  it("is the same after it went through an address", () => {
    expect(through(asked)).toEqual({ ...asked, nodes: ["node-2", "node-10"] });
    const uniform: Question = { ...asked, arrivals: { kind: "uniform", low: 20, high: 90.5 } };
    expect(through(uniform).arrivals).toEqual(uniform.arrivals);
  });
  it("has a short address where it is as always", () => {
    const question: Question = { nodes: [], racks: ["b"], arrivals: { kind: "provider" }, seed: 0, algorithms: ["blocking", "best_density"], rollback: "", replicas: "running" };
    expect(Object.entries(addressOf(question, USUAL)).filter(([, value]) => value !== null)).toEqual([["racks", "b"]]);
    expect(bodyOf(question)).toEqual({ nodes: [], racks: ["b"], algorithms: ["blocking", "best_density"] });
  });
  it("is sent with its arrivals", () => {
    expect(bodyOf(asked)).toMatchObject({ arrivals: [30, 60.5], seed: 7, rollback: "global" });
    expect(bodyOf({ ...asked, arrivals: { kind: "uniform", low: 1, high: 2 } })).toMatchObject({ arrivals: "uniform:1:2" });
  });
  it("keeps which replicas take over in its address and its body", () => {
    for (const replicas of ["running", "none", 0, 12] satisfies AskedReplicas[]) expect(through({ ...asked, replicas }).replicas).toBe(replicas);
    expect(bodyOf({ ...asked, replicas: "none" })).toMatchObject({ replicas: "none" });
    expect(bodyOf({ ...asked, replicas: 0 })).toMatchObject({ replicas: 0 });
    expect(bodyOf({ ...asked, replicas: "running" })).not.toHaveProperty("replicas");
  });
  it.each(["all", "-1", "2.5", "20001", "999999", "", "1e3"])("takes %j in a link for those that run", (text) => {
    expect(questionFrom(new URLSearchParams({ replicas: text }), USUAL).replicas).toBe("running");
  });
  it("reads seconds however they are separated", () => {
    expect([readSeconds("30, 60 90"), readSeconds(""), readSeconds("30,x"), readSeconds("-1")]).toEqual([[30, 60, 90], [], null, null]);
  });
  it("names each lost node once", () => {
    const nodes = [["n1", "a"], ["n10", "b"], ["n2", "b"]].map(([name, rack]) => ({ name, rack }) as Node);
    expect(victims({ ...asked, nodes: ["n2", "n1"], racks: ["b"] }, nodes)).toEqual(["n1", "n2", "n10"]);
  });
});

describe("fates", () => {
  it("names each query with its topology", () => {
    const outlook = (topology: string) => ({ topology, fidelity: 0.5, replicas: 0, unplaced: [], taken_over: [], queries: [{ query: "A[0]", outcome: "stops" as const, fidelity: 0 }] });
    expect(fates([outlook("t"), outlook("u")])).toEqual([{ topology: "t", query: "A[0]", outcome: "stops", fidelity: 0 }, { topology: "u", query: "A[0]", outcome: "stops", fidelity: 0 }]);
  });
});

describe("align", () => {
  it("holds each curve's level between its own points", () => {
    const point = (at: number, weighted: number) => ({ at, weighted, available: 0, total: 1, tentative: 0, weighted_tentative: 0.25 });
    const { times, values } = align([[point(0, 0), point(10, 1)], [point(5, 0.5)]], 20);
    expect(times).toEqual([0, 5, 10, 20]);
    expect(values).toEqual([[0, 0, 1, 1], [null, 0.5, 0.5, 0.5]]);
    expect(align([[point(0, 0)]], 20, withTentative).values).toEqual([[0.25, 0.25]]);
  });
});
