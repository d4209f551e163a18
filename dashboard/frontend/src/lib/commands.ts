// Everything the palette offers: places first, then deeds.

import { byName } from "./format";
import { failNode, recoverTopology, takeCheckpoint } from "./deeds";
import { abort, pauseRecovery, replan, resumeRecovery } from "./incidentDeeds";
import { boot, mayAct } from "./boot";
import { paths, router } from "./router.svelte";
import { incidentIsOpen, status } from "./status";
import { store } from "./store.svelte";
import { theme } from "./theme.svelte";

export interface Command {
  group: string;
  label: string;
  note?: string;
  run: () => void;
}

export function commands(help: () => void): Command[] {
  const { topology, query, node, incident } = store.entities;
  const go = (group: string, label: string, address: string, note?: string): Command => ({
    group, label, run: () => router.go(address), ...(note ? { note } : {}),
  });
  const sorted = <T>(rows: Iterable<T>, name: (row: T) => string): T[] => [...rows].sort((a, b) => byName(name(a), name(b)));
  const topologies = sorted(topology.values(), (row) => row.name);
  const nodes = sorted(node.values(), (row) => row.name);
  const alive = nodes.filter((row) => row.state === "alive");
  return [
    ...[...incident.values()].filter((row) => incidentIsOpen(row.state)).map((row) =>
      go("Incident", `Incident ${row.number}`, paths.incident(row.number), status("incident", row.state).label)),
    go("Page", "Fleet", paths.fleet(), "g f"),
    go("Page", "Nodes", paths.nodes(), "g n"),
    go("Page", "Incidents", paths.incidents(), "g i"),
    go("Page", "What if nodes were lost", paths.whatIf(), "g w"),
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
    ...(mayAct ? topologies.flatMap((row): Command[] => [
      { group: "Do", label: `Take a checkpoint of ${row.name}`, run: () => takeCheckpoint(row) },
      { group: "Do", label: `Recover ${row.name} now`, run: () => recoverTopology(row) },
    ]) : []),
    ...(mayAct ? [...incident.values()].filter((row) => incidentIsOpen(row.state)).flatMap((row): Command[] => [
      row.paused ? { group: "Do", label: `Resume the recovery of incident ${row.number}`, run: () => resumeRecovery(row) } : { group: "Do", label: `Pause the recovery of incident ${row.number}`, run: () => pauseRecovery(row) },
      { group: "Do", label: `Plan incident ${row.number} anew`, run: () => replan(row) },
      { group: "Do", label: `Abort incident ${row.number}`, run: () => abort(row) },
    ]) : []),
    ...(mayAct && boot.faultInjection ? alive.map((row): Command => ({ group: "Do", label: `Fail ${row.name}`, run: () => failNode(row) })) : []),
    { group: "Do", label: "Keyboard help", note: "?", run: help },
  ];
}
