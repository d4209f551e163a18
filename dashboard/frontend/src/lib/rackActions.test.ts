import { describe, expect, it } from "vitest";

import { drainAction, rackPermits } from "./rackActions";
import type { Rack } from "./types";

const rack = (given: Partial<Rack> = {}): Rack => ({
  name: "rack-a", nodes: {}, leaving: ["node-10", "node-2"], draining: [], awaited: [], needed_percent: 40, free_percent: 90, others: ["node-3"], refusals: {},
  moves: [
    { topology: "counts", partition: "O1[10]", node: "node-2", fits: true },
    { topology: "counts", partition: "O1[2]", node: "node-2", fits: true },
  ],
  ...given,
});
const told = (given: Partial<Rack>): string => drainAction(rack(given)).consequences.map((one) => `${one.title} ${one.items?.join(" ") ?? ""}`).join("\n");

describe("draining a rack", () => {
  it("says what moves and that it fits", () => {
    const action = drainAction(rack());
    expect(action).toMatchObject({ title: "Drain rack-a", path: "racks/rack-a/drain/" });
    expect(told({})).toContain("2 nodes take no new partitions node-2 node-10");
    expect(told({})).toContain("2 partitions of counts move with their state O1[2] O1[10]");
    expect(told({})).toContain("All of them fit");
    expect(action.consequences.some((one) => one.tone === "warn")).toBe(false);
  });

  it("warns of what has no room, by name", () => {
    const moves = [{ topology: "counts", partition: "O1[2]", node: "node-2", fits: false }];
    const stuck = drainAction(rack({ moves })).consequences.find((one) => one.tone === "warn");
    expect(stuck?.title).toContain("1 partition has no room elsewhere and stays");
    expect(stuck?.items).toEqual(["counts O1[2]"]);
    expect(told({ moves })).not.toContain("All of them fit");
    expect(told({ others: [], moves })).toContain("no other node takes partitions");
  });

  it("warns of nodes that come later, and moves nothing off an empty rack", () => {
    expect(told({ awaited: ["node-12"] })).toContain("1 node has not joined yet and is not drained node-12");
    expect(told({ moves: [] })).toContain("No partition runs there.");
    expect(told({ moves: [] })).not.toContain("checkpoint");
  });

  it("is permitted where any node permits it", () => {
    const lost = { refusals: { drain: "node 'node-1' is lost" } };
    expect(rackPermits([lost], "drain")).toBe(false);
    expect(rackPermits([lost, { refusals: {} }], "drain")).toBe(true);
  });
});
