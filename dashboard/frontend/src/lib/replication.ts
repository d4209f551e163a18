// A replication plan: the request, its address, and the rows of the topology page.

import type { Iso, Partition, Policy, Topology } from "./entities.generated";
import { humanise, percent } from "./format";
import type { CheckpointDetail } from "./checkpoints";

/** null is as the topology's policy says. */
export interface ReplicationQuestion {
  budget: number | null;
  planner: string | null;
}

export interface ChosenPartition {
  partition: string;
  operator: string;
  step: number;
  fidelity: number;
  gain: number;
  rate: number;
  reason: string;
}

export interface QueryOutlook {
  query: string;
  tentative: boolean;
  fidelity: number;
  weight: number;
  reason: string;
}

export interface ReplicationPlan {
  topology: string;
  planner: string;
  budget: number;
  total: number;
  fidelity_before: number;
  fidelity_after: number;
  plain_fidelity_before: number;
  plain_fidelity_after: number;
  completeness_before: number;
  completeness_after: number;
  proven: boolean;
  /** How far the plan's fidelity can be below the best; null where that is not known. */
  gap: number | null;
  note: string;
  rates: "measured" | "even" | "equal";
  rates_note: string;
  checkpoint: { epoch: number; ended_at: Iso | null; size_bytes: number } | null;
  chosen: ChosenPartition[];
  queries: QueryOutlook[];
}

/** A replica, beside the partition that it copies. */
export interface Replica {
  partition: string;
  node: string | null;
  replica: string;
  wanted: boolean;
  caught_up: boolean;
  acts: boolean;
}

/** What the topology would give without a rack or node. */
export interface Loss {
  kind: "rack" | "node";
  name: string;
  fidelity: number;
  stop: string[];
  lack_input: string[];
}

/** What a larger budget would buy; a gain of 0: none of the next ones gains anything. */
export interface NextReplica {
  budget: number;
  more: number;
  fidelity: number;
  gain: number;
  added: string[];
  dropped: string[];
}

export interface Replicas {
  topology: string;
  mode: "off" | "advise" | "on";
  budget: number;
  note: string;
  replicas: Replica[];
  unplaced: string[];
  acting: Record<string, string>;
  next: NextReplica | null;
  fidelity: number;
  losses: Loss[];
}

export const replicaState = (row: Replica): { word: string; tone: "good" | "warn" | "idle" } =>
  row.acts ? { word: "acts", tone: "warn" }
  : !row.wanted ? { word: "to go", tone: "idle" }
  : row.caught_up ? { word: "ready", tone: "good" }
  : { word: "catching up", tone: "idle" };

/** What has to change in a policy so that the replicas of the shown plan run, or none. Budget and planner
    change only if the question names them. */
export function replicaChanges(policy: Policy, question: ReplicationQuestion, mode: "on" | "off"): Partial<Policy> {
  const wanted: Partial<Policy> = { replication_mode: mode };
  if (mode === "on" && question.budget !== null) wanted.replication_budget = question.budget;
  if (mode === "on" && question.planner !== null) wanted.replication_planner = question.planner as Policy["replication_planner"];
  return Object.fromEntries(Object.entries(wanted).filter(([name, value]) => policy[name as keyof Policy] !== value)) as Partial<Policy>;
}

/** What the next replica would buy, in words. */
export function nextWords({ more, gain, added, dropped }: NextReplica): string {
  const some = (names: string[]): string => `${names.slice(0, 4).join(", ")}${names.length > 4 ? ` and ${names.length - 4} more` : ""}`;
  const replicas = more === 1 ? "1 replica more" : `${more} replicas more`;
  if (!gain) return `up to ${replicas} would gain nothing`;
  return `${replicas}: ${percent(gain, 1)} more of the output in the worst case (${some(added)}${dropped.length ? ` instead of ${some(dropped)}` : ""})`;
}

export const USUAL_PLANNER = "structure_aware";

/** Planners with what is particular about each, the usual one first. */
export const REPLICATION_PLANNERS: [string, string][] = [
  [USUAL_PLANNER, "adds the partitions with the most fidelity per partition, always with all they need"],
  ["dynamic_programming", "exact; refuses large topologies"],
  ["optimal", "searches for a few seconds and says how far from the best its plan can be"],
  ["greedy", "takes the partitions whose single failure costs most; for comparison"],
  ["published", "the structure-aware algorithm as it was published; for comparison"],
];

export const replicationPlannerLabel = (name: string): string => humanise(name);

export function questionFrom(query: URLSearchParams): ReplicationQuestion {
  const budget = query.get("budget");
  return { budget: budget !== null && /^\d{1,6}$/.test(budget) ? Number(budget) : null, planner: query.get("planner") };
}

export function addressOf(question: ReplicationQuestion): Record<"budget" | "planner", string | null> {
  return { budget: question.budget === null ? null : String(question.budget), planner: question.planner };
}

export function requestOf(topology: string, question: ReplicationQuestion): string {
  const query = new URLSearchParams();
  if (question.budget !== null) query.set("budget", String(question.budget));
  if (question.planner !== null) query.set("planner", question.planner);
  return `topologies/${encodeURIComponent(topology)}/replication-plan/${query.size ? `?${query}` : ""}`;
}

/** The present protection of a partition, and the plan's choice. */
export interface Protection {
  partition: Partition;
  /** Bytes of it in the newest checkpoint in storage; null where that is not known. */
  stored: number | null;
  chosen: ChosenPartition | undefined;
}

export function protections(partitions: readonly Partition[], plan: ReplicationPlan, checkpoint: CheckpointDetail | null): Protection[] {
  const stored = new Map(checkpoint?.acknowledgements.map((ack) => [ack.partition, ack.size_bytes]));
  const chosen = new Map(plan.chosen.map((one) => [one.partition, one]));
  return partitions.map((partition) => ({ partition, stored: stored.get(partition.partition) ?? null, chosen: chosen.get(partition.partition) }));
}

/** The replica of a partition that runs: ready to take over, still behind, or acting for it. */
export interface ShownReplica {
  state: "ready" | "behind" | "acts";
  node: string;
}

export function replicaOf(topology: Pick<Topology, "shadows" | "acting">, partition: string): ShownReplica | null {
  const acting = topology.acting[partition];
  if (acting) return { state: "acts", node: acting };
  const shadow = topology.shadows[partition];
  return shadow ? { state: shadow.caught_up ? "ready" : "behind", node: shadow.node } : null;
}

export const replicaWords = ({ state, node }: ShownReplica): string => `${state === "behind" ? "catching up" : state} on ${node}`;
