// Everything the palette offers: places first, then deeds.

import { byName } from "./format";
import { deployTopology, pauseTopology, recoverTopology, resumeTopology, takeCheckpoint, whyNoCheckpoint, whyNoDeployment, whyNoPause, whyNoRecovery } from "./deeds";
import { abort, pauseRecovery, replan, resumeRecovery } from "./incidentDeeds";
import { mayAct } from "./boot";
import { activateNode, drainNode, failNodes, whyNoActivation, whyNoDrain, whyNoFailure } from "./nodeDeeds";
import { places } from "./places";
import { paths, router } from "./router.svelte";
import { incidentIsOpen, status } from "./status";
import { store } from "./store.svelte";
import { theme } from "./theme.svelte";
import type { Node, Topology } from "./types";

export interface Command {
  group: string;
  label: string;
  note?: string;
  /** Further words it is found by. */
  words?: string;
  run: () => void;
}

const deed = (label: string, run: () => void): Command => ({ group: "Do", label, run });

/** Only what is possible now: the palette has no place to say why not. */
function topologyDeeds(row: Topology): Command[] {
  return [
    ...(whyNoCheckpoint(row) ? [] : [deed(`Take a checkpoint of ${row.name}`, () => takeCheckpoint(row))]),
    ...(whyNoRecovery(row) ? [] : [deed(`Recover ${row.name} now`, () => recoverTopology(row))]),
    ...(whyNoPause(row) ? [] : [deed(`Pause ${row.name}`, () => pauseTopology(row))]),
    ...(row.status === "paused" ? [deed(`Resume ${row.name}`, () => resumeTopology(row))] : []),
    ...(whyNoDeployment(row) ? [] : [deed(`Deploy ${row.name}`, () => deployTopology(row))]),
  ];
}

function nodeCommands(row: Node): Command[] {
  return [
    ...(whyNoDrain(row) ? [] : [deed(`Drain ${row.name}`, () => drainNode(row))]),
    ...(whyNoActivation(row) ? [] : [deed(`Activate ${row.name}`, () => activateNode(row))]),
    ...(whyNoFailure(row) ? [] : [deed(`Fail ${row.name}`, () => failNodes([row]))]),
  ];
}

export function commands(help: () => void): Command[] {
  const { topology, query, node, incident } = store.entities;
  const go = (group: string, label: string, address: string, note?: string): Command => ({
    group, label, run: () => router.go(address), ...(note ? { note } : {}),
  });
  const sorted = <T>(rows: Iterable<T>, name: (row: T) => string): T[] => [...rows].sort((a, b) => byName(name(a), name(b)));
  const topologies = sorted(topology.values(), (row) => row.name);
  const nodes = sorted(node.values(), (row) => row.name);
  return [
    ...[...incident.values()].filter((row) => incidentIsOpen(row.state)).map((row) =>
      go("Incident", `Incident ${row.number}`, paths.incident(row.number), status("incident", row.state).label)),
    ...places().map((place) => ({ ...go("Page", place.name, place.href, `g ${place.key}`), words: place.words })),
    go("Page", "API tokens", paths.settings({ tab: "tokens" })),
    go("Page", "Recovery policies", paths.settings({ tab: "policies" })),
    ...topologies.map((row) => go("Topology", row.name, paths.topology(row.name), status("topology", row.status).label)),
    ...sorted(query.values(), (row) => `${row.topology}/${row.partition}`).map((row) =>
      go("Query", `${row.topology} ${row.partition}`, paths.topology(row.topology, { operator: row.partition.replace(/\[\d+\]$/, "") }), status("query", row.status).label)),
    ...nodes.map((row) => go("Node", row.name, paths.nodes({ q: row.name }), status("node", row.state).label)),
    ...[...incident.values()].filter((row) => !incidentIsOpen(row.state)).reverse().map((row) =>
      go("Incident", `Incident ${row.number}`, paths.incident(row.number), status("incident", row.state).label)),
    { group: "Do", label: store.paused ? "Resume updates" : "Pause updates", note: "p", run: () => store.setPaused(!store.paused) },
    { group: "Do", label: router.kiosk ? "Leave kiosk mode" : "Kiosk mode, for a wall display", note: "k", run: () => router.set({ kiosk: router.kiosk ? null : "1" }) },
    { group: "Do", label: "Theme: light", run: () => theme.set("light") },
    { group: "Do", label: "Theme: dark", run: () => theme.set("dark") },
    { group: "Do", label: "Theme: as the system says", run: () => theme.set("system") },
    ...(mayAct ? topologies.flatMap(topologyDeeds) : []),
    ...(mayAct ? nodes.flatMap(nodeCommands) : []),
    ...(mayAct ? [...incident.values()].filter((row) => incidentIsOpen(row.state)).flatMap((row): Command[] => [
      row.paused ? { group: "Do", label: `Resume the recovery of incident ${row.number}`, run: () => resumeRecovery(row) } : { group: "Do", label: `Pause the recovery of incident ${row.number}`, run: () => pauseRecovery(row) },
      { group: "Do", label: `Plan incident ${row.number} anew`, run: () => replan(row) },
      { group: "Do", label: `Abort incident ${row.number}`, run: () => abort(row) },
    ]) : []),
    { group: "Do", label: "Keyboard help", note: "?", run: help },
  ];
}
