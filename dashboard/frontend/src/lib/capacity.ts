// How full nodes are planned: what their partitions need and what every node takes anyway, as the planner expects it,
// against what may be planned on them.

import type { Consequence } from "./actions.svelte";
import type { Node, Partition, Topology } from "./entities.generated";
import { byName, duration, percent, plural } from "./format";

/** What a topology's load means now. */
export function loadWords(topology: Pick<Topology, "load" | "lag" | "overloaded_since">): string {
  if (topology.overloaded_since) return `overloaded, ${duration(topology.lag)} behind`;
  return topology.load === null ? "not known yet" : "of the available time";
}

export interface Room {
  /** CPU percent of one core: what the node needs at the normal pace, and how much of its capacity may be planned. */
  needed: number;
  limit: number;
  free: number;
  capacity: number;
}

/** CPU percent that plans count for partitions: what they were measured to take, or request. */
export const plannedFor = (partitions: readonly Pick<Partition, "cpu" | "cpu_request">[]): number =>
  partitions.reduce((sum, partition) => sum + Math.max(partition.cpu, partition.cpu_request) * 100, 0);

export function roomOf(node: Node, hosted: readonly Partition[], maxUtilisation: number): Room {
  const measured = hosted.reduce((sum, partition) => sum + partition.cpu * 100, 0);
  const planned = plannedFor(hosted);
  const needed = Math.max(planned, (node.predicted_percent ?? 0) + planned - measured);
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

const takesPartitions = (node: Node): boolean => node.state === "alive" && !node.standby;

/** How evenly a topology uses the nodes that can take partitions. */
export function evenness(topology: string, nodes: Iterable<Node>, hosted: ReadonlyMap<string, Partition[]>): Consequence[] {
  const usable = [...nodes].filter(takesPartitions);
  const empty = usable.filter((node) => !hosted.get(node.name)?.some((row) => row.topology === topology)).map((node) => node.name).sort(byName);
  const used = usable
    .filter((node) => node.predicted_percent !== null && node.capacity > 0)
    .map((node): [string, number] => [node.name, node.predicted_percent! / node.capacity])
    .sort((a, b) => a[1] - b[1] || byName(a[0], b[0]));
  const alive = plural(usable.length, "node is alive", "nodes are alive");
  const found: Consequence[] = [
    empty.length ? { title: `${alive}, ${empty.length} without partitions of ${topology}`, items: empty } : { title: `${alive}, all with partitions of ${topology}.` },
  ];
  const [idlest, busiest] = [used[0], used.at(-1)];
  if (idlest && busiest && used.length > 1) found.push({ title: `Expected CPU: from ${percent(idlest[1])} of ${idlest[0]} to ${percent(busiest[1])} of ${busiest[0]}.` });
  return found;
}

/** What the others could take over from one node: those that are alive and not kept as standbys. */
export function roomElsewhere(name: string, nodes: Iterable<Node>, hosted: ReadonlyMap<string, Partition[]>, maxUtilisation: number): { free: number; nodes: number; largest: number } {
  let [free, count, largest] = [0, 0, 0];
  for (const node of nodes) {
    if (node.name === name || !takesPartitions(node)) continue;
    const room = roomOf(node, hosted.get(node.name) ?? [], maxUtilisation);
    free += room.free;
    largest = Math.max(largest, room.free);
    count += 1;
  }
  return { free, nodes: count, largest };
}
