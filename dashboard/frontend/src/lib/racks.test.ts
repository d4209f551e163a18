import { expect, test } from "vitest";
import { rackName, rackWords } from "./racks";

const loss = (rack: string, share: number, more: { node?: string; common?: boolean } = {}) =>
  ({ rack, node: more.node ?? "", queries: Math.round(share * 15), share, common: more.common ?? share === 1 });
const words = (racks: number, losses: ReturnType<typeof loss>[], fatal = losses.filter((one) => one.share === 1).length) => rackWords({ rack_exposure: { racks, fatal, losses } });

test("nothing is said while no rack is known, or nothing runs", () => {
  expect(words(0, [])).toBeNull();
  expect(words(2, [loss("rack-a", 0), loss("rack-b", 0)])).toBeNull();
});

test("with one rack there is nothing to choose", () => {
  expect(words(1, [loss("rack-a", 1)])).toEqual({ text: "All nodes are in one rack, rack-a: its loss would take down every query.", warn: false });
});

test("racks that take down every query are named, with the reason", () => {
  expect(words(3, [loss("r1", 1), loss("r2", 0.4), loss("r3", 0)])).toEqual({ text: "The loss of rack r1 would take down every query: partitions that all queries need run there.", warn: true });
  expect(words(2, [loss("rack-a", 1), loss("rack-b", 1, { common: false })])?.text).toBe("The loss of rack-a or rack-b would take down every query: every query has a partition there.");
  const many = Array.from({ length: 8 }, (_, i) => loss(`r${i}`, 1));
  expect(words(20, many, 12)?.text).toContain("rack r7 or one of 4 more would");
});

test("otherwise the worst rack is named", () => {
  expect(words(2, [loss("rack-a", 0.6), loss("rack-b", 0.4)])).toEqual({ text: "No rack's loss would take down every query. The worst is rack-a: 9 queries, 60 % of the priority.", warn: false });
});

test("a node of which no rack is known stands for itself", () => {
  expect(rackName({ rack: "", node: "node-5" })).toBe("node-5");
});
