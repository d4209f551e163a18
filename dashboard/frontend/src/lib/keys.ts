// What became of the states of keys of a topology whose guarantee is bounded, by node and all together. Pure.

import type { NodeKeys, Topology } from "./entities.generated";
import { byName, bytes, clock, count, duration, plural } from "./format";
import { notStored } from "./guarantee";
import type { Shape, Tone } from "./status";

/** The figures of one node. */
export interface KeysOfNode extends NodeKeys {
  node: string;
}

export const keysOf = (topology: Pick<Topology, "keys">): KeysOfNode[] =>
  Object.entries(topology.keys).map(([node, keys]) => ({ node, ...keys })).sort((a, b) => byName(a.node, b.node));

/** Whether the storage of states is asked, by the stores or by the fetches of one node. */
export interface Breaker {
  word: string;
  tone: Tone;
  shape: Shape;
  /** 0 is what an operator must see first. */
  rank: number;
}

/** failures: in a row. until: Unix seconds to which the storage is bypassed, 0 if it is not. */
export function breaker(failures: number, until: number, now: number): Breaker {
  if (until > now) return { word: `bypassed until ${clock(until, now)}`, tone: "bad", shape: "cross", rank: 0 };
  if (until > 0) return { word: "tried again", tone: "busy", shape: "half", rank: 1 };
  return failures ? { word: "storage asked", tone: "warn", shape: "triangle", rank: 2 } : { word: "storage asked", tone: "good", shape: "dot", rank: 3 };
}

export const storing = (row: NodeKeys, now: number): Breaker => breaker(row.storing_failures, row.storing_bypassed_until, now);
export const fetching = (row: NodeKeys, now: number): Breaker => breaker(row.fetching_failures, row.fetching_bypassed_until, now);

export const failuresWords = (failures: number): string => (failures ? plural(failures, "failure in a row", "failures in a row") : "");

interface Fact {
  name: string;
  value: string;
  title?: string;
  tone?: string;
}

/** All nodes together. */
export function keysFacts(rows: readonly KeysOfNode[], now: number): Fact[] {
  const { changed, oldest } = notStored(rows);
  const [refused, lost] = [sum(rows, "refused"), sum(rows, "lost_rows")];
  const [bypass, failing] = [rows.filter((row) => Math.min(storing(row, now).rank, fetching(row, now).rank) === 0).length, rows.filter((row) => row.error).length];
  const last = rows.find((row) => row.error);
  return [
    { name: "Stored", value: `${plural(sum(rows, "stored"), "state")}, ${bytes(sum(rows, "stored_bytes"))}`, title: "Each state as often as it was stored since the topology was deployed" },
    { name: "Changed, not stored yet", value: changed ? `${plural(changed, "key")}, the first ${duration(oldest)} ago` : "none", title: "What the states of these keys would lack if their nodes were lost now" },
    { name: "Waiting", value: `${plural(sum(rows, "waiting"), "request")}${refused ? `, ${count(refused)} refused so far` : ""}`, title: "A request that finds no place is refused, and its key stays to be stored", tone: refused ? "warn" : "" },
    { name: "Asked for after a loss", value: fetchedWords(rows), title: "Keys that partitions without state asked the storage for, since the driver began" },
    { name: "Rows lost", value: count(lost), title: "Rows for partitions that did not run, since the driver began", tone: lost ? "warn" : "" },
    { name: "Storage", value: bypass ? `bypassed by ${count(bypass)} of ${plural(rows.length, "node")}` : failing ? `fails on ${count(failing)} of ${plural(rows.length, "node")}` : "asked by all", tone: bypass ? "bad" : failing ? "warn" : "" },
    ...(last ? [{ name: "Last error", value: `${last.node}: ${last.error}`, title: failing > 1 ? "Of the first node that has one" : undefined, tone: bypass ? "bad" : "warn" }] : []),
  ];
}

function fetchedWords(rows: readonly NodeKeys[]): string {
  const parts = ([["fetched", "fetched"], ["unknown", "unknown"], ["unanswered", "no answer"], ["bypassed", "bypassed"]] as const)
    .map(([field, word]) => [sum(rows, field), word] as const)
    .filter(([number]) => number);
  return parts.map(([number, word]) => `${count(number)} ${word}`).join(", ") || "none";
}

type Counted = { [K in keyof NodeKeys]: NodeKeys[K] extends number ? K : never }[keyof NodeKeys];
const sum = (rows: readonly NodeKeys[], field: Counted): number => rows.reduce((total, row) => total + row[field], 0);
