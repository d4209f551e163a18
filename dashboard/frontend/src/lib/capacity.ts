// How full nodes are planned: what their partitions need and what every node takes anyway, as the planner expects it,
// against what may be planned on them.

import type { Node, Partition } from "./entities.generated";

export interface Room {
  /** CPU percent of one core: what the node needs at the normal pace, and how much of its capacity may be planned. */
  needed: number;
  limit: number;
  free: number;
  capacity: number;
}

export function roomOf(node: Node, hosted: readonly Partition[], maxUtilisation: number): Room {
  const partitions = hosted.reduce((sum, partition) => sum + partition.cpu * 100, 0);
  const needed = Math.max(partitions, node.predicted_percent ?? 0);
  const limit = node.capacity * maxUtilisation;
  return { needed, limit, free: Math.max(0, limit - needed), capacity: node.capacity };
}

export function hostedBy(partitions: Iterable<Partition>): Map<string, Partition[]> {
  const found = new Map<string, Partition[]>();
  for (const partition of partitions) {
    if (partition.node === null) continue;
    const list = found.get(partition.node);
    if (list) list.push(partition);
    else found.set(partition.node, [partition]);
  }
  return found;
}

/** What the others could take over from one node: those that are alive and not kept as standbys. */
export function roomElsewhere(name: string, nodes: Iterable<Node>, hosted: ReadonlyMap<string, Partition[]>, maxUtilisation: number): { free: number; nodes: number; largest: number } {
  let [free, count, largest] = [0, 0, 0];
  for (const node of nodes) {
    if (node.name === name || node.state !== "alive" || node.standby) continue;
    const room = roomOf(node, hosted.get(node.name) ?? [], maxUtilisation);
    free += room.free;
    largest = Math.max(largest, room.free);
    count += 1;
  }
  return { free, nodes: count, largest };
}
