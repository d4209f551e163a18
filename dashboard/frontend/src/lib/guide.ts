// The guided tour of an installation on which nodes may be killed: fail a rack, watch the waves, compare with
// what blocking recovery would have done, verify. Pure; `guide.svelte.ts` keeps where a browser is in it.

import type { Incident, Node, Operation, Partition, Topology } from "./entities.generated";
import { byName } from "./format";
import { isOpen } from "./health";
import { newestVerification, type Verification } from "./verification";
import type { CurvePoint } from "./whatif";

/** fresh: never begun and never refused here, so it may be offered. left: not offered again. */
export type Stage = "fresh" | "left" | "running";
export type Step = "predict" | "fail" | "watch" | "compare" | "verify" | "end";
export const STEPS: Step[] = ["predict", "fail", "watch", "compare", "verify"];

/** How one way to recover did; seconds from detection, null where it did not happen. */
export interface Figures {
  first: number | null;
  half: number | null;
  all: number | null;
  /** How long a failed query was down, in the mean. */
  mean: number | null;
}

export interface Tour {
  stage: Stage;
  topology: string;
  rack: string;
  /** Incidents with higher numbers may be the one of this tour. */
  after: number;
  predicted: boolean;
  incident: number | null;
  /** What blocking recovery would have done with the replacements of the incident. */
  blocking: Figures | null;
  /** They had not all come when the incident was over: their delays were drawn. */
  drawn: boolean;
  compared: boolean;
  /** Verifications that were asked for later are of this tour. */
  since: string;
}

export const FRESH: Tour = { stage: "fresh", topology: "", rack: "", after: 0, predicted: false, incident: null, blocking: null, drawn: false, compared: false, since: "" };

/** What was kept, or a fresh tour where that cannot be read. */
export function tourRead(text: string | null): Tour {
  try {
    const kept = JSON.parse(text ?? "null") as Partial<Tour> | null;
    const known = kept?.stage === "left" || (kept?.stage === "running" && typeof kept.topology === "string" && typeof kept.rack === "string");
    return known ? { ...FRESH, ...kept } : FRESH;
  } catch {
    return FRESH;
  }
}

export interface Target {
  topology: Topology;
  rack: string;
  nodes: Node[];
  partitions: number;
}

/** The rack whose loss shows most: of at most half of the nodes, the one with most partitions of the topology
 * that has most queries. Null where no topology is well, or where nothing would be left. */
export function target(topologies: Iterable<Topology>, nodes: Iterable<Node>, partitions: Iterable<Partition>): Target | null {
  const well = [...topologies].filter((one) => one.status === "running" && one.health.limit && one.health.value === one.health.limit);
  const topology = well.sort((a, b) => b.health.limit! - a.health.limit! || byName(a.name, b.name))[0];
  if (!topology) return null;
  const alive = [...nodes].filter((node) => node.state === "alive");
  const homes = [...partitions].filter((row) => row.topology === topology.name).map((row) => row.node);
  const racks = [...new Set(alive.map((node) => node.rack))].map((rack) => {
    const members = alive.filter((node) => node.rack === rack);
    return { topology, rack, nodes: members, partitions: homes.filter((home) => members.some((node) => node.name === home)).length };
  });
  return racks.filter((one) => one.partitions && one.nodes.length * 2 <= alive.length).sort((a, b) => b.partitions - a.partitions || byName(a.rack, b.rack))[0] ?? null;
}

/** The incident of a tour: the first one since it began that a loss of nodes has opened. */
export function incidentOf(tour: Tour, incidents: Iterable<Incident>): Incident | null {
  const fit = [...incidents].filter((one) => (tour.incident === null ? one.number > tour.after && one.failed_nodes.length > 0 && one.topologies.includes(tour.topology) : one.number === tour.incident));
  return fit.sort((a, b) => a.number - b.number)[0] ?? null;
}

export function verificationOf(tour: Tour, operations: Iterable<Operation>): Verification | null {
  const found = newestVerification(operations, tour.topology);
  return found && found.operation.created_at >= tour.since ? found : null;
}

/** Where a tour is, read off what has happened, so that it goes on after a reload. */
export function stepOf(tour: Tour, incident: Incident | null, verification: Verification | null): Step {
  if (incident === null) return tour.predicted ? "fail" : "predict";
  if (isOpen(incident)) return "watch";
  if (!tour.compared) return "compare";
  return verification?.tone === "good" ? "end" : "verify";
}

const at = (time: string | null | undefined): number | null => (time ? Date.parse(time) / 1000 : null);

/** How an incident went. A query that has not returned counts until the incident was closed. */
export function measured(incident: Incident): Figures {
  const detected = at(incident.detected_at)!;
  const since = (time: string | null | undefined): number | null => (at(time) === null ? null : at(time)! - detected);
  const returned = incident.summary.returned ?? {};
  const failed = Object.entries(incident.summary.failed_queries ?? {}).flatMap(([topology, queries]) => queries.map((query) => `${topology}/${query}`));
  const lasted = failed.map((query) => since(returned[query]) ?? since(incident.closed_at) ?? 0);
  const mean = lasted.length ? lasted.reduce((sum, one) => sum + one, 0) / lasted.length : null;
  return { first: since(incident.first_query_at), half: since(incident.half_queries_at), all: since(incident.all_queries_at), mean };
}

/** The mean time for which queries of a predicted course are down, of those that are. A recovery that puts everything
 * back to a checkpoint stops queries that had lost nothing, too. */
export function meanDown(curve: readonly CurvePoint[], horizon: number): number | null {
  const most = Math.max(0, ...curve.map((point) => point.total - point.available));
  if (!most) return null;
  const down = curve.reduce((sum, point, i) => {
    const until = Math.min(curve[i + 1]?.at ?? horizon, horizon);
    return sum + Math.max(0, until - Math.max(0, point.at)) * (point.total - point.available);
  }, 0);
  return down / most;
}

/** Seconds from detection at which the replacements of an incident came, from the facts of its story. */
export function arrivals(incident: Incident, entries: readonly { at: string; data?: Record<string, unknown> }[]): number[] {
  const detected = at(incident.detected_at)!;
  return entries.filter((entry) => entry.data?.["fact"] === "arrived").map((entry) => Math.max(0, at(entry.at)! - detected)).sort((a, b) => a - b);
}
