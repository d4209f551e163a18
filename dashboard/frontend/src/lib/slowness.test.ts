import { expect, test } from "vitest";
import { slowNodes, slowSince } from "./slowness";

const first = { slow_since: { "node-3": "2026-11-23T10:00:10+00:00", "node-1": "2026-11-23T10:00:20+00:00" } as Record<string, string> };
const topologies = [first, { slow_since: { "node-3": "2026-11-23T10:00:00+00:00" } as Record<string, string> }];

test("a node is slow since the first topology said so", () => {
  expect(slowSince("node-3", topologies)).toBe("2026-11-23T10:00:00+00:00");
  expect(slowSince("node-2", topologies)).toBeNull();
});

test("the slow nodes of a topology are listed by name", () => {
  expect(slowNodes(first)).toEqual(["node-1", "node-3"]);
});
