// Actions on all nodes of a rack together. What would move, and where room is missing, is the server's answer.

import { actions, type Action, type Consequence } from "./actions.svelte";
import { fetchRack } from "./api";
import type { Node } from "./entities.generated";
import { byName, cores, plural } from "./format";
import { rackName } from "./racks";
import { refusal } from "./refusals";
import type { Rack, RackMove } from "./types";

const path = (rack: string, verb: string): string => `racks/${encodeURIComponent(rack)}/${verb}/`;
export const called = (rack: string): string => rackName({ rack, node: "" });

/** Whether any node of a rack permits the action now. */
export const rackPermits = (nodes: readonly Pick<Node, "refusals">[], action: string): boolean => nodes.some((node) => !refusal(node, action));

const named = (moves: readonly RackMove[]): string[] => moves.map((move) => `${move.topology} ${move.partition}`).sort(byName);

export function drainConsequences(rack: Rack): Consequence[] {
  const found: Consequence[] = [{ title: `${plural(rack.leaving.length, "node takes", "nodes take")} no new partitions`, items: [...rack.leaving].sort(byName) }];
  if (!rack.moves.length) found.push({ title: "No partition runs there." });
  for (const topology of [...new Set(rack.moves.map((move) => move.topology))].sort(byName)) {
    const moves = rack.moves.filter((move) => move.topology === topology);
    found.push({
      title: plural(moves.length, `partition of ${topology} moves with its state`, `partitions of ${topology} move with their state`),
      items: moves.map((move) => move.partition).sort(byName),
    });
  }
  const stuck = rack.moves.filter((move) => !move.fits);
  if (rack.moves.length) {
    const where = rack.others.length ? `${plural(rack.others.length, "other node has", "other nodes have")} ${cores(rack.free_percent)} free` : "no other node takes partitions";
    found.push({ title: `They need ${cores(rack.needed_percent)}; ${where}.${stuck.length ? "" : " All of them fit."}` });
  }
  if (stuck.length) found.push({ title: `${plural(stuck.length, "partition has no room elsewhere and stays", "partitions have no room elsewhere and stay")} until there is`, items: named(stuck), tone: "warn" });
  if (rack.awaited.length) found.push({ title: `${plural(rack.awaited.length, "node has not joined yet and is", "nodes have not joined yet and are")} not drained`, items: [...rack.awaited].sort(byName), tone: "warn" });
  if (rack.moves.length) found.push({ title: "No query goes back to a checkpoint. Latencies are higher for about one epoch." });
  return found;
}

export function drainAction(rack: Rack): Action {
  return {
    title: `Drain ${called(rack.name)}`,
    verb: "Drain",
    path: path(rack.name, "drain"),
    explain: rack.moves.length
      ? "All its nodes are drained together, so partitions move to other racks only. The empty nodes can be stopped; until then they can be activated again."
      : "No partition is planned on its nodes until they are activated again.",
    consequences: drainConsequences(rack),
  };
}

export function drainRack(name: string): void {
  void actions.askAbout(`Drain ${called(name)}`, () => fetchRack(name), drainAction);
}

export function activateRack(name: string, nodes: readonly Pick<Node, "name" | "refusals">[]): void {
  const drained = nodes.filter((node) => !refusal(node, "activate")).map((node) => node.name).sort(byName);
  actions.ask({
    title: `Activate ${called(name)}`,
    verb: "Activate",
    path: path(name, "activate"),
    explain: "Its drained nodes can take partitions again. Partitions that have moved stay where they are; later plans can use the nodes.",
    consequences: [{ title: `${plural(drained.length, "drained node")} can take partitions again`, items: drained }],
  });
}
