import { describe, expect, it } from "vitest";
import { historic } from "./gone";

const nodes = [{ name: "n1", state: "alive" }, { name: "n2", state: "lost" }, { name: "n3", state: "left" }] as const;

describe("a node that is gone", () => {
  it("is history when nothing is left to recover", () => expect([...historic(nodes, [], [{ node: "n1" }])]).toEqual(["n2", "n3"]));
  it("is present trouble while an incident recovers from its loss", () => expect([...historic(nodes, [{ failed_nodes: ["n2"] }], [])]).toEqual(["n3"]));
  it("is present trouble while a partition waits to be placed elsewhere", () => expect([...historic(nodes, [], [{ node: "n2" }, { node: null }])]).toEqual(["n3"]));
});
