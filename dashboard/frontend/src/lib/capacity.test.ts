import { describe, expect, it } from "vitest";
import { evenness, hostedBy, roomElsewhere, roomOf } from "./capacity";
import type { Node, Partition } from "./entities.generated";

const node = (name: string, more: Partial<Node> = {}): Node => ({ name, state: "alive", capacity: 100, standby: false, ...more }) as Node;
const partition = (name: string, on: string | null, cpu: number, request = 0): Partition => ({ partition: name, node: on, cpu, cpu_request: request }) as Partition;

describe("capacity", () => {
  const hosted = hostedBy([partition("A[0]", "n1", 0.3), partition("B[0]", "n1", 0.2), partition("C[0]", "n2", 0.9), partition("D[0]", null, 9)]);

  it("counts what partitions need against what may be planned", () => {
    expect(roomOf(node("n1"), hosted.get("n1")!, 0.8)).toEqual({ needed: 50, limit: 80, free: 30, capacity: 100 });
    expect(roomOf(node("n2"), hosted.get("n2")!, 0.8).free, "over its bound").toBe(0);
  });

  it("counts what partitions request, where that is more, beside what every node takes anyway", () => {
    const rows = [partition("A[0]", "n1", 0.1, 0.3), partition("B[0]", "n1", 0.2, 0.1)];
    expect(roomOf(node("n1"), rows, 0.8).needed).toBe(50);
    expect(roomOf(node("n1", { predicted_percent: 42 }), rows, 0.8).needed, "12 of the node, 30 and 20").toBeCloseTo(62);
  });
  it("looks for room on other nodes that are alive and no standbys", () => {
    const nodes = [node("n1"), node("n2"), node("n3", { capacity: 400 }), node("n4", { state: "draining" }), node("n5", { standby: true })];
    expect(roomElsewhere("n1", nodes, hosted, 0.8)).toEqual({ free: 320, nodes: 2, largest: 320 });
  });
  it("says how evenly a topology uses the nodes", () => {
    const of = (name: string, on: string): Partition => ({ ...partition(name, on, 0.1), topology: "t" });
    const used = (name: string, predicted_percent: number | null, more: Partial<Node> = {}): Node => node(name, { predicted_percent, ...more });
    const nodes = [used("n10", 30, { capacity: 200 }), used("n2", 5), used("n1", 70), used("n3", null), used("n4", 99, { state: "draining" }), used("n5", 0, { standby: true })];
    const titles = (rows: Partition[], all = nodes): string[] => evenness("t", all, hostedBy(rows)).map((one) => one.title);
    expect(titles([of("A[0]", "n1"), of("B[0]", "n3"), { ...of("C[0]", "n2"), topology: "other" }])).toEqual([
      "4 nodes are alive, 2 without partitions of t", "Expected CPU: from 5 % of n2 to 70 % of n1.",
    ]);
    expect(evenness("t", nodes, new Map())[0]?.items).toEqual(["n1", "n2", "n3", "n10"]);
    expect(titles([of("A[0]", "n1"), of("B[0]", "n3")], [nodes[2]!, nodes[3]!]), "one was measured").toEqual(["2 nodes are alive, all with partitions of t."]);
  });
});
