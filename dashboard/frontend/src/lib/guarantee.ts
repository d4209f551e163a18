// What a topology guarantees after a failure, in words. Pure.

import type { NodeKeys, OperatorNode, Topology } from "./entities.generated";
import { byName } from "./format";

/** It has no checkpoints: the states of its keys are stored one by one. */
export const isBounded = (topology: Pick<Topology, "guarantee"> | undefined): boolean => topology?.guarantee === "bounded";

/** `20s` as `20 s`, `500 events` as it is. */
export const everyText = (every: string): string => every.replace(/^([\d.]+) ?([a-z]+)$/i, "$1 $2");

/** Operators that are named where they differ. */
const NAMED = 3;

/** How often states are stored: that of most operators, then of those that differ. A source has no keys. */
export function everyWords(operators: readonly Pick<OperatorNode, "name" | "every" | "inputs">[]): string {
  const stored = operators.filter((one) => one.every && one.inputs.length).map((one) => ({ name: one.name, every: everyText(one.every) }));
  const times = new Map<string, number>();
  for (const { every } of stored) times.set(every, (times.get(every) ?? 0) + 1);
  const usual = [...times].sort((a, b) => b[1] - a[1])[0]?.[0];
  const others = stored.filter((one) => one.every !== usual).sort((a, b) => byName(a.name, b.name));
  const more = others.length > NAMED ? [`${others.length - NAMED} more otherwise`] : [];
  return [...(usual ? [`every ${usual}`] : []), ...others.slice(0, NAMED).map((one) => `${one.name} every ${one.every}`), ...more].join("; ");
}

/** What the guarantee means, in a sentence; nothing where it is exact. */
export function guaranteeWords(topology: Pick<Topology, "guarantee"> & { graph?: Topology["graph"] }): string {
  if (!isBounded(topology)) return "";
  const every = everyWords(topology.graph?.operators ?? []);
  return `Bounded: after a failure it goes on at once; a row counts at most once, and a key lacks at most what came since its state was stored last${every ? ` (${every})` : ""}.`;
}

/** What would be lost with the nodes now: keys whose present state is not stored, and how old the first change of one is. */
export function notStored(rows: readonly Pick<NodeKeys, "changed" | "oldest">[]): { changed: number; oldest: number } {
  return { changed: rows.reduce((total, row) => total + row.changed, 0), oldest: Math.max(0, ...rows.map((row) => row.oldest)) };
}
