// What can be said of a topology and its parts in the state it is in: figures of one that does not run are not shown.

import type { Partition, Problem, Topology, TopologyStatus } from "./entities.generated";

type Standing = Pick<Topology, "status" | "health">;

const AT_REST: ReadonlySet<TopologyStatus> = new Set(["draft", "stopped", "completed"]);

/** Whether rates, latencies and epochs behind are measured now. */
export const measured = (topology: Standing): boolean => judged(topology) && topology.health.state !== "failed";

/** Whether its queries count as available or not; those of a paused topology give no results, and none has failed. */
export const judged = (topology: Standing): boolean => topology.health.limit !== null;

/** In the place of a figure that is not measured: why it is not. */
export function unmeasured(topology: Standing): string {
  const words: Partial<Record<TopologyStatus, string>> = { draft: "not deployed", paused: "paused", completed: "completed", failed: "failed", stopped: "stopped" };
  return words[topology.status] ?? "not known yet";
}

/** A partition with the state that is shown. */
export type ShownPartition = Omit<Partition, "state"> & { state: PartitionStatus };
export type PartitionStatus = Partition["state"] | "paused" | "idle" | "failing";

/** The state of a partition as it is shown: one of a topology that does not run neither runs nor starts. */
export function partitionStatus(topology: Standing, partition: Pick<Partition, "state">): PartitionStatus {
  if (AT_REST.has(topology.status)) return "idle";
  return topology.status === "paused" && partition.state === "running" ? "paused" : partition.state;
}

/** Partitions whose operator fails now: those of which a problem says what the driver says is wrong. */
export function failingPartitions(error: string, problems: readonly [string, Pick<Problem, "where" | "what">][]): ReadonlySet<string> {
  return new Set(error ? problems.filter(([, problem]) => problem.what && error.startsWith(problem.what)).map(([, problem]) => problem.where) : []);
}

/** The same for all of one topology; of one that runs they are as they come, but for those that fail. */
export const shownPartitions = (topology: Standing | undefined, partitions: readonly Partition[], failing: ReadonlySet<string> = new Set()): readonly ShownPartition[] =>
  topology === undefined || measured(topology)
    ? failing.size ? partitions.map((partition) => (failing.has(partition.partition) ? { ...partition, state: "failing" } : partition)) : partitions
    : partitions.map((partition) => ({ ...partition, state: partitionStatus(topology, partition) }));
