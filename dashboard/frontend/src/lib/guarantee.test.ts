import { describe, expect, it } from "vitest";
import type { OperatorNode, Topology } from "./entities.generated";
import { everyText, everyWords, guaranteeWords, isBounded, notStored } from "./guarantee";

const operator = (name: string, every: string, from: string[] = ["Source"]): OperatorNode => ({
  name, kind: "map", description: "", parallelism: 1, priority: 1, level: 1, output: false, correlated: false, deterministic: true, determinism: "", every,
  inputs: from.map((one) => ({ from: one, partitioning: "full" as const, feedback: false })),
});
const topology = (guarantee: Topology["guarantee"], operators: OperatorNode[]): Pick<Topology, "guarantee" | "graph"> => ({ guarantee, graph: { operators } });

describe("what a topology guarantees", () => {
  it("is bounded where its specification says so", () => {
    expect([isBounded({ guarantee: "bounded" }), isBounded({ guarantee: "exact" }), isBounded(undefined)]).toEqual([true, false, false]);
  });

  it("is a sentence only where it is bounded", () => {
    expect(guaranteeWords(topology("exact", [operator("Counts", "")]))).toBe("");
    expect(guaranteeWords(topology("bounded", [operator("Source", "20s", []), operator("Counts", "20s")]))).toBe(
      "Bounded: after a failure it goes on at once; a row counts at most once, and a key lacks at most what came since its state was stored last (every 20 s).",
    );
    expect(guaranteeWords({ guarantee: "bounded" })).toMatch(/stored last\.$/);
  });
});

describe("how often states are stored", () => {
  it("is written with a space", () => {
    expect([everyText("20s"), everyText("0.5 s"), everyText("500 events"), everyText("1event"), everyText("90")]).toEqual(["20 s", "0.5 s", "500 events", "1 event", "90"]);
  });

  it("is what most operators do, then who differs", () => {
    const usual = [operator("A", "20s"), operator("B", "20 s")];
    expect(everyWords(usual)).toBe("every 20 s");
    expect(everyWords([operator("C", "500 events"), ...usual])).toBe("every 20 s; C every 500 events");
    expect(everyWords([...usual, ...["E", "F", "G"].map((name, at) => operator(name, `${at + 1}m`)), operator("H", "1h"), operator("I", "2h")])).toBe(
      "every 20 s; E every 1 m; F every 2 m; G every 3 m; 2 more otherwise",
    );
    expect(everyWords([operator("Source", "5s", [])])).toBe("");
  });
});

it("knows what would be lost with the nodes now", () => {
  expect(notStored([])).toEqual({ changed: 0, oldest: 0 });
  expect(notStored([{ changed: 3, oldest: 4.5 }, { changed: 2, oldest: 1 }])).toEqual({ changed: 5, oldest: 4.5 });
});
