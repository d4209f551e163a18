// Nodes that are slow but not dead, as topologies report them.

import type { Topology } from "./entities.generated";

type Reporting = Pick<Topology, "slow_since">;

/** Since when a node is slow, for the topology that has said so for longest; null if it is not. */
export function slowSince(node: string, topologies: Iterable<Reporting>): string | null {
  const moments = [...topologies].flatMap((one) => (one.slow_since[node] ? [one.slow_since[node]] : []));
  return moments.sort()[0] ?? null;
}

/** The nodes that a topology reports as slow, by name. */
export function slowNodes(topology: Reporting): string[] {
  return Object.keys(topology.slow_since).sort();
}
