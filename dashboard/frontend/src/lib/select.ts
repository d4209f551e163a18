// Views of the store's entities that several pages share.

import type { Checkpoint, Entry, Incident, Partition, Plan, Problem, Query, Sample } from "./entities.generated";
import { byName, seconds } from "./format";
import { isOpen, isPast } from "./health";
import { stepsOf } from "./steps";
import { store } from "./store.svelte";

const of = <T extends { topology: string | null }>(rows: ReadonlyMap<string, T>, topology: string): T[] =>
  [...rows.values()].filter((row) => row.topology === topology);

export const queriesOf = (topology: string): Query[] => of(store.entities.query, topology);
export const partitionsOf = (topology: string): Partition[] => of(store.entities.partition, topology);
/** The partitions of a topology that give nothing now, each with its state. */
export const absentOf = (topology: string): Map<string, string> =>
  new Map(partitionsOf(topology).filter((row) => row.state !== "running" && row.state !== "stalled").map((row) => [row.partition, row.state]));
export const checkpointsOf = (topology: string): Checkpoint[] => of(store.entities.checkpoint, topology).sort((a, b) => b.epoch - a.epoch);
export const plansOf = (incident: number): Plan[] =>
  [...store.entities.plan.values()].filter((plan) => plan.incident === incident).sort((a, b) => a.generation - b.generation);

/** Of one topology, and those of the whole installation. */
export function problemsOf(topology: string): [string, Problem][] {
  return [...store.entities.problem.entries()]
    .filter(([, problem]) => problem.topology === topology || !problem.topology)
    .sort((a, b) => (a[1].at < b[1].at ? 1 : -1));
}

export function entriesOf(incident: number): [string, Entry][] {
  return [...store.entities.entry.entries()]
    .filter(([, entry]) => entry.incident === incident)
    .sort((a, b) => (a[1].at === b[1].at ? byName(a[0], b[0]) : a[1].at < b[1].at ? -1 : 1));
}

export const samplesOf = (topology: string, from?: number, to?: number): Sample[] => stepsOf(of(store.entities.sample, topology), from, to);

export function incidentsNewestFirst(): Incident[] {
  return [...store.entities.incident.values()].sort(
    (a, b) => Number(isOpen(b)) - Number(isOpen(a)) || b.number - a.number,
  );
}

/** The names of nodes that are history. */
export const historicNodes = (): Set<string> => new Set([...store.entities.node.values()].filter(isPast).map((node) => node.name));

/** How many seconds ago, by the server's clock. */
export function ago(time: string | null | undefined): number | null {
  const at = seconds(time);
  return at === null ? null : Math.max(0, store.now - at);
}
