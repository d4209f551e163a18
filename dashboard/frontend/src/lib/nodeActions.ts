// Actions on nodes, each with the partitions that move or are lost.

import { actions, type Consequence } from "./actions.svelte";
import { boot } from "./boot";
import { hostedBy, roomElsewhere, roomOf } from "./capacity";
import type { Node, Partition, Query } from "./entities.generated";
import { byName, cores, coresNumber, percent, plural } from "./format";
import { queriesLost } from "./lineage";
import { store } from "./store.svelte";

const path = (node: Node, verb: string): string => `nodes/${encodeURIComponent(node.name)}/${verb}/`;

/** Partitions by topology, each topology's in the order of their names. */
function byTopology(partitions: readonly Partition[]): [string, string[]][] {
  return [...Map.groupBy(partitions, (row) => row.topology)]
    .map(([name, rows]): [string, string[]] => [name, rows.map((row) => row.partition).sort(byName)])
    .sort((a, b) => byName(a[0], b[0]));
}

/** The queries that need any of these partitions. */
export function queriesOn(partitions: readonly Partition[]): Query[] {
  const { query, topology } = store.entities;
  return byTopology(partitions).flatMap(([name, lost]) => {
    const own = [...query.values()].filter((row) => row.topology === name);
    const gone = new Set(queriesLost(topology.get(name)?.graph?.operators ?? [], lost, own));
    return own.filter((row) => gone.has(row.partition));
  });
}

const named = (topologies: readonly [string, unknown][]) => (row: { topology: string; partition: string }): string =>
  topologies.length > 1 ? `${row.topology} ${row.partition}` : row.partition;

export function drainNode(node: Node): void {
  const hosted = hostedBy(store.entities.partition.values());
  const own = hosted.get(node.name) ?? [];
  const room = roomElsewhere(node.name, store.entities.node.values(), hosted, boot.maxUtilisation);
  const { needed } = roomOf(node, own, boot.maxUtilisation);
  const queries = queriesOn(own);
  const topologies = byTopology(own);
  const consequences: Consequence[] = topologies.map(([name, partitions]): Consequence => (
    { title: plural(partitions.length, `partition of ${name} moves with its state`, `partitions of ${name} move with their state`), items: partitions }
  ));
  if (!own.length) consequences.push({ title: "No partition runs there. The node only takes no new partitions." });
  else {
    const where = room.nodes === 1 ? "the other node has" : `the other ${room.nodes} nodes have`;
    const fits = needed <= room.free;
    consequences.push({
      title: `They need ${cores(needed)}; ${room.nodes ? `${where} ${coresNumber(room.free)} free` : "no other node is alive"}, within the ${percent(boot.maxUtilisation)} that may be planned.${fits ? "" : " Partitions that do not fit stay until there is room."}`,
      tone: fits ? "idle" : "warn",
    });
  }
  if (queries.length) consequences.push({ title: `No query goes back to a checkpoint. ${plural(queries.length, "query has a higher latency", "queries have higher latencies")} for about one epoch.` });
  actions.ask({
    title: `Drain ${node.name}`,
    verb: "Drain",
    path: path(node, "drain"),
    explain: own.length
      ? "Its partitions move to other nodes, and no new ones are placed on it. The empty node can be stopped; until then it can be activated again."
      : "No partition is planned there until it is activated again.",
    consequences,
  });
}

export function activateNode(node: Node): void {
  const hosted = hostedBy(store.entities.partition.values()).get(node.name) ?? [];
  const room = roomOf(node, hosted, boot.maxUtilisation);
  actions.ask({
    title: `Activate ${node.name}`,
    verb: "Activate",
    path: path(node, "activate"),
    explain: "It can take partitions again. Partitions that have moved stay where they are; later plans can use the node.",
    consequences: [
      { title: `${cores(room.free)} can be planned on it` },
      hosted.length ? { title: `${plural(hosted.length, "partition")} still there ${hosted.length === 1 ? "stays" : "stay"}`, items: hosted.map(named(byTopology(hosted))).sort(byName) } : { title: "No partition runs there now." },
    ],
  });
}

export function forgetNode(node: Node): void {
  actions.ask({
    title: `Forget ${node.name}`,
    verb: "Forget",
    path: path(node, "forget"),
    explain: "It disappears from all lists. Incidents and the audit trail keep its name. If it registers again, it is shown again.",
    consequences: [],
  });
}

/** What would be lost with these nodes at once. */
export function lossOf(nodes: readonly Node[]): { partitions: Partition[]; queries: Query[] } {
  const names = new Set(nodes.map((node) => node.name));
  const partitions = [...store.entities.partition.values()].filter((row) => row.node !== null && names.has(row.node));
  return { partitions, queries: queriesOn(partitions) };
}

export function failNodes(nodes: readonly Node[], suggestion = ""): void {
  if (!nodes.length) return;
  const { partitions, queries } = lossOf(nodes);
  const topologies = byTopology(partitions);
  const names = nodes.map((node) => node.name).sort(byName);
  const name = names.length === 1 ? names[0]! : plural(names.length, "node");
  const consequences: Consequence[] = [
    ...(names.length > 1 ? [{ title: `${name} at the same moment`, items: names, tone: "bad" as const }] : []),
    partitions.length
      ? { title: `${plural(partitions.length, "partition")} will be lost with their local state`, items: partitions.map(named(topologies)).sort(byName), tone: "bad" }
      : { title: "No partition runs there." },
  ];
  if (queries.length) consequences.push({ title: `${plural(queries.length, "query", "queries")} will stop until recovered`, items: queries.map(named(topologies)).sort(byName), tone: "warn" });
  actions.ask({
    title: `Fail ${name}`,
    verb: `Kill ${name}`,
    path: path(nodes[0]!, "fail"),
    ...(nodes.length > 1 ? { paths: nodes.map((node) => path(node, "fail")) } : {}),
    explain: names.length === 1
      ? "Sends SIGKILL to every process of the node, as a power cut would. It does not come back; the provider brings up a replacement."
      : "Sends SIGKILL to every process of these nodes, as a rack without power would. They do not come back; the provider brings up replacements.",
    consequences,
    danger: true,
    ...(suggestion ? { suggestion } : {}),
  });
}
