// Everything the palette offers: places first, then actions.

import { silence } from "./alertActions";
import type { Incident, Node, Topology } from "./entities.generated";
import { byName } from "./format";
import { abort, pauseRecovery, replan, resumeRecovery } from "./incidentActions";
import { mayAct } from "./boot";
import { activateNode, drainNode, failNodes, forgetNode } from "./nodeActions";
import { places } from "./places";
import { activateRack, called, drainRack, rackPermits } from "./rackActions";
import { refusal } from "./refusals";
import { paths, router } from "./router.svelte";
import { target } from "./guide";
import { guide } from "./guide.svelte";
import { isOpen } from "./health";
import { store } from "./store.svelte";
import { theme } from "./theme.svelte";
import { deployTopology, pauseTopology, rebalanceTopology, recoverTopology, resumeTopology, takeCheckpoint, verifyTopology } from "./topologyActions";

export interface Command {
  group: string;
  label: string;
  note?: string;
  /** Further words it is found by. */
  words?: string;
  run: () => void;
}

/** Only what the server permits now: the palette has no place to say why not. */
const permitted = <T extends { refusals: Record<string, string> }>(row: T, action: string, label: string, run: (row: T) => void): Command[] =>
  refusal(row, action) ? [] : [{ group: "Do", label, run: () => run(row) }];

const topologyCommands = (row: Topology): Command[] => [
  { group: "Do", label: `Edit the specification of ${row.name}`, words: "yaml version change", run: () => router.go(paths.editor({ topology: row.name })) },
  ...permitted(row, "checkpoint", `Take a checkpoint of ${row.name}`, takeCheckpoint),
  ...permitted(row, "recover", `Recover ${row.name} now`, recoverTopology),
  ...permitted(row, "rebalance", `Rebalance the partitions of ${row.name}`, rebalanceTopology),
  ...permitted(row, "verify", `Verify the outputs of ${row.name}`, verifyTopology),
  ...permitted(row, "pause", `Pause ${row.name}`, pauseTopology),
  ...permitted(row, "resume", `Resume ${row.name}`, resumeTopology),
  ...permitted(row, "deploy", `Deploy ${row.name}`, deployTopology),
];

const nodeCommands = (row: Node): Command[] => [
  ...permitted(row, "drain", `Drain ${row.name}`, drainNode),
  ...permitted(row, "activate", `Activate ${row.name}`, activateNode),
  ...permitted(row, "forget", `Forget ${row.name}`, forgetNode),
  ...permitted(row, "fail", `Fail ${row.name}`, (one) => failNodes([one])),
];

const rackCommands = (nodes: readonly Node[]): Command[] =>
  [...Map.groupBy(nodes.filter((node) => node.rack), (node) => node.rack)].sort((a, b) => byName(a[0], b[0])).flatMap(([rack, members]) => [
    ...(rackPermits(members, "drain") ? [{ group: "Do", label: `Drain all nodes of ${called(rack)}`, run: () => drainRack(rack) }] : []),
    ...(rackPermits(members, "activate") ? [{ group: "Do", label: `Activate all nodes of ${called(rack)}`, run: () => activateRack(rack, members) }] : []),
  ]);

const incidentCommands = (row: Incident): Command[] => [
  ...permitted(row, "resume", `Resume the recovery of incident ${row.number}`, resumeRecovery),
  ...permitted(row, "pause", `Pause the recovery of incident ${row.number}`, pauseRecovery),
  ...permitted(row, "replan", `Replan incident ${row.number}`, replan),
  ...permitted(row, "abort", `Abort incident ${row.number}`, abort),
];

export function commands(help: () => void): Command[] {
  const { topology, query, node, incident } = store.entities;
  const go = (group: string, label: string, address: string, note?: string): Command => ({
    group, label, run: () => router.go(address), ...(note ? { note } : {}),
  });
  const sorted = <T>(rows: Iterable<T>, name: (row: T) => string): T[] => [...rows].sort((a, b) => byName(name(a), name(b)));
  const topologies = sorted(topology.values(), (row) => row.name);
  const nodes = sorted(node.values(), (row) => row.name);
  const tour = guide.possible && ![...incident.values()].some(isOpen) ? target(topology.values(), node.values(), store.entities.partition.values()) : null;
  return [
    ...[...incident.values()].filter(isOpen).map((row) =>
      go("Incident", `Incident ${row.number}`, paths.incident(row.number), row.health.word)),
    ...places().map((place) => ({ ...go("Page", place.name, place.href, `g ${place.key}`), words: place.words })),
    { ...go("Page", "New topology", paths.editor()), words: "create specification yaml editor" },
    go("Page", "API tokens", paths.settings({ tab: "tokens" })),
    go("Page", "Recovery policies", paths.settings({ tab: "policies" })),
    ...topologies.map((row) => go("Topology", row.name, paths.topology(row.name), row.health.word)),
    ...sorted(query.values(), (row) => `${row.topology}/${row.partition}`).map((row) =>
      go("Query", `${row.topology} ${row.partition}`, paths.topology(row.topology, { operator: row.partition.replace(/\[\d+\]$/, "") }), row.health.word)),
    ...nodes.map((row) => go("Node", row.name, paths.nodes({ q: row.name }), row.health.word)),
    ...[...incident.values()].filter((row) => !isOpen(row)).reverse().map((row) =>
      go("Incident", `Incident ${row.number}`, paths.incident(row.number), row.health.word)),
    { group: "Do", label: store.paused ? "Resume updates" : "Pause updates", note: "p", run: () => store.setPaused(!store.paused) },
    { group: "Do", label: router.kiosk ? "Leave kiosk mode" : "Kiosk mode, for a wall display", note: "k", run: () => router.set({ kiosk: router.kiosk ? null : "1" }) },
    { group: "Do", label: "Theme: light", run: () => theme.set("light") },
    { group: "Do", label: "Theme: dark", run: () => theme.set("dark") },
    { group: "Do", label: "Theme: as the system says", run: () => theme.set("system") },
    ...(mayAct ? [{ group: "Do", label: "Silence alerts", words: "alert mute webhooks", run: () => silence() }] : []),
    ...(mayAct ? topologies.flatMap(topologyCommands) : []),
    ...(mayAct ? nodes.flatMap(nodeCommands) : []),
    ...(mayAct ? rackCommands(nodes) : []),
    ...(mayAct ? [...incident.values()].flatMap(incidentCommands) : []),
    ...(tour ? [{ group: "Do", label: "Take the guided tour", words: "demo fail rack waves blocking verify", run: () => guide.begin(tour) }] : []),
    { group: "Do", label: "Keyboard help", note: "?", run: help },
  ];
}
