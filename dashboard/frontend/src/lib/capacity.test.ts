import { describe, expect, it } from "vitest";
import { hostedBy, roomElsewhere, roomOf } from "./capacity";
import type { Node, Partition } from "./entities.generated";

const node = (name: string, more: Partial<Node> = {}): Node => ({ name, state: "alive", capacity: 100, standby: false, ...more }) as Node;
const partition = (name: string, on: string | null, cpu: number): Partition => ({ partition: name, node: on, cpu }) as Partition;

describe("capacity", () => {
  const hosted = hostedBy([partition("A[0]", "n1", 0.3), partition("B[0]", "n1", 0.2), partition("C[0]", "n2", 0.9), partition("D[0]", null, 9)]);

  it("counts what partitions need against what may be planned", () => {
    expect(roomOf(node("n1"), hosted.get("n1")!, 0.8)).toEqual({ needed: 50, limit: 80, free: 30, capacity: 100 });
    expect(roomOf(node("n2"), hosted.get("n2")!, 0.8).free, "over its bound").toBe(0);
  });
  it("looks for room on other nodes that are alive and no standbys", () => {
    const nodes = [node("n1"), node("n2"), node("n3", { capacity: 400 }), node("n4", { state: "draining" }), node("n5", { standby: true })];
    expect(roomElsewhere("n1", nodes, hosted, 0.8)).toEqual({ free: 320, nodes: 2, largest: 320 });
  });
});
