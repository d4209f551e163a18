// Which incidents are open.

import type { Incident } from "./entities.generated";
import { isOpen } from "./health";
import { store } from "./store.svelte";

/** How an incident came about, where no loss was detected. */
export function triggerWords(trigger: Incident["trigger"]): string {
  return { detected: "", manual: "manually", balance: "by policy", overload: "by an overload", slow: "by a slow node" }[trigger];
}

/** The nodes that the newest incident of a topology lost: what failed ran there. */
export function lostLast(topology: string): string[] {
  const all = [...store.entities.incident.values()].filter((incident) => incident.topologies.includes(topology));
  return all.sort((a, b) => b.number - a.number)[0]?.failed_nodes ?? [];
}

export function openIncidents(topology?: string): Incident[] {
  return [...store.entities.incident.values()]
    .filter((incident) => isOpen(incident) && (topology === undefined || incident.topologies.includes(topology)))
    .sort((a, b) => b.number - a.number);
}
