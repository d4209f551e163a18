// The actions of the pages, each with what it will do to what is running now.

import { actions, type Consequence } from "./actions.svelte";
import { boot } from "./boot";
import { byName, plural } from "./format";
import { partitionsOn, queriesLost } from "./lineage";
import { incidentIsOpen } from "./status";
import { store } from "./store.svelte";
import type { Incident, Node, Topology } from "./types";

const AT_REST = new Set(["draft", "completed", "failed", "stopped", "stopping"]);

export function openIncidents(topology?: string): Incident[] {
  return [...store.entities.incident.values()]
    .filter((incident) => incidentIsOpen(incident.state) && (topology === undefined || incident.topologies.includes(topology)))
    .sort((a, b) => b.number - a.number);
}

export function whyNoCheckpoint(topology: Topology): string {
  if (AT_REST.has(topology.status)) return `${topology.name} is ${topology.status}: a checkpoint needs a running topology.`;
  if (topology.status === "recovering") return "It is recovering; the recovery ends with a checkpoint of its own.";
  return "";
}

export function whyNoRecovery(topology: Topology): string {
  if (AT_REST.has(topology.status)) return `${topology.name} is ${topology.status}: there is nothing to recover.`;
  const incident = openIncidents(topology.name)[0];
  if (incident) return `Incident ${incident.number} is already recovering it.`;
  return "";
}

export function whyNoFailure(node: Node): string {
  if (!boot.faultInjection) return "Fault injection is switched off (RESURGE_FAULT_INJECTION).";
  if (node.state !== "alive" && node.state !== "draining" && node.state !== "suspect") return `${node.name} is ${node.state}; only a node that is alive can be made to fail.`;
  return "";
}

export function takeCheckpoint(topology: Topology): void {
  actions.ask({
    title: `Take a checkpoint of ${topology.name}`,
    verb: "Take checkpoint",
    path: `topologies/${encodeURIComponent(topology.name)}/checkpoint/`,
    explain: "Every partition snapshots its state at the next epoch boundary and uploads it in the background. Results keep flowing.",
    consequences: [{ title: `The last complete one is at epoch ${topology.checkpoint_epoch}; the topology is at ${topology.head_epoch}.` }],
  });
}

export function recoverTopology(topology: Topology): void {
  const partitions = [...store.entities.partition.values()].filter((row) => row.topology === topology.name);
  const down = partitions.filter((row) => row.state === "failed" || row.state === "stalled").map((row) => row.partition).sort(byName);
  actions.ask({
    title: `Recover ${topology.name} now`,
    verb: "Recover now",
    path: `topologies/${encodeURIComponent(topology.name)}/recover/`,
    explain: `Opens an incident, replaces what has failed, and rolls back to the checkpoint at epoch ${topology.checkpoint_epoch}. What was computed since is replayed; outputs stay exact.`,
    consequences: [
      down.length ? { title: `${plural(down.length, "partition")} to restore`, items: down, tone: "warn" } : { title: "No partition has failed: the topology restarts from its checkpoint and pauses while it catches up.", tone: "warn" },
      { title: `${plural(Math.max(0, topology.head_epoch - topology.checkpoint_epoch), "epoch")} to replay.` },
    ],
  });
}

export function failNode(node: Node): void {
  const { partition, query, topology } = store.entities;
  const hosted = partitionsOn(node.name, partition.values());
  const lost = [...new Set(hosted.map((row) => row.topology))].flatMap((name) => {
    const operators = topology.get(name)?.graph?.operators ?? [];
    const own = [...query.values()].filter((row) => row.topology === name);
    return queriesLost(operators, hosted.filter((row) => row.topology === name).map((row) => row.partition), own).map((row) => `${name} ${row}`);
  });
  const consequences: Consequence[] = [
    hosted.length
      ? { title: `${plural(hosted.length, "partition")} will be lost with their local state`, items: hosted.map((row) => row.partition).sort(byName), tone: "bad" }
      : { title: "No partition runs there." },
  ];
  if (lost.length) consequences.push({ title: `${plural(lost.length, "query", "queries")} will stop until recovered`, items: lost, tone: "warn" });
  actions.ask({
    title: `Fail ${node.name}`,
    verb: `Kill ${node.name}`,
    path: `nodes/${encodeURIComponent(node.name)}/fail/`,
    explain: "Sends SIGKILL to every process of the node, as a power cut would. It does not come back; the provider brings up a replacement.",
    consequences,
    danger: true,
  });
}
