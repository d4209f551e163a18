// Nodes that are history: gone, and nothing waits for what ran on them.

import type { Incident, Node, Partition } from "./entities.generated";

type Gone = Pick<Node, "name" | "state">;

/**
 * The names of nodes that are lost or have left, where no open incident recovers from it and no partition is still
 * placed there. They are out of the way of what is of now.
 */
export function historic(nodes: Iterable<Gone>, open: Iterable<Pick<Incident, "failed_nodes">>, partitions: Iterable<Pick<Partition, "node">>): Set<string> {
  const found = new Set([...nodes].filter((node) => node.state === "lost" || node.state === "left").map((node) => node.name));
  if (!found.size) return found;
  for (const incident of open) for (const name of incident.failed_nodes) found.delete(name);
  for (const partition of partitions) if (partition.node !== null) found.delete(partition.node);
  return found;
}
