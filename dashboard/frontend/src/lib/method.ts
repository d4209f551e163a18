// How a topology comes back, or what an incident did, in words.

import type { RecoveryMethod, Topology } from "./entities.generated";

const DONE: Record<RecoveryMethod, string> = { blocking: "Blocking recovery", incremental: "Incremental recovery", move: "Moves" };

export const recoveryWords = (method: RecoveryMethod): string => DONE[method] ?? method;

const WAVES = "in waves (incremental)";
const ONCE = "all at once (blocking)";

/** A wave puts back what runs: what starts again would otherwise not fit to the outputs of what goes on. */
const disturbs = (topology: Topology): boolean =>
  topology.policy.rollback === "global" || (topology.graph?.operators ?? []).some((operator) => !operator.deterministic);

/** How a topology would be recovered if so many nodes were lost together; as the coordinator decides it. */
export function recoveredBy(topology: Topology, nodes: number, threshold: number): string {
  const { method, correlation_threshold } = topology.policy;
  if (method === "blocking") return ONCE;
  if (method === "incremental" || !disturbs(topology) || nodes >= (correlation_threshold ?? threshold)) return WAVES;
  return "in waves if everything that is lost fits on the other nodes, else all at once";
}

/** The same for several: each is named where they differ. */
export function recoveryOf(topologies: readonly Topology[], nodes: number, threshold: number): string {
  const ways = topologies.map((one): [string, string] => [one.name, recoveredBy(one, nodes, threshold)]);
  const different = new Set(ways.map(([, way]) => way));
  if (different.size <= 1) return ways[0]?.[1] ?? "nothing to recover";
  return ways.map(([name, way]) => `${name} ${way}`).join("; ");
}
