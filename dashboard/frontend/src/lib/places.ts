// The pages of the bar, of the palette and of the `g` keys: one list for all three.

import { boot } from "./boot";
import { paths } from "./router.svelte";

export interface Place {
  /** The letter after `g`. */
  key: string;
  name: string;
  href: string;
  icon: string;
  /** Names of the pages that belong to it. */
  pages: string[];
  /** Stands in the bar of a phone itself; the others are under More. */
  first: boolean;
  words: string;
  /** Has a sign of its own at the right of the bar. */
  bell?: true;
}

export function places(): Place[] {
  return [
    { key: "f", name: "Fleet", href: paths.fleet(), icon: "fleet", pages: ["fleet", "topology", "query", "editor"], first: true, words: "home topologies" },
    { key: "n", name: "Nodes", href: paths.nodes(), icon: "nodes", pages: ["nodes"], first: true, words: "racks hosts" },
    { key: "i", name: "Incidents", href: paths.incidents(), icon: "incidents", pages: ["incidents", "incident"], first: true, words: "failures recovery" },
    { key: "c", name: "Checkpoints", href: paths.checkpoints(), icon: "checkpoints", pages: ["checkpoints"], first: false, words: "snapshots" },
    { key: "w", name: "What-if", href: paths.whatIf(), icon: "whatif", pages: ["what-if"], first: true, words: "predict simulate planners" },
    ...(boot.faultInjection ? [{ key: "x", name: "Faults", href: paths.faults(), icon: "faults", pages: ["faults"], first: false, words: "fault injection kill experiment chaos" }] : []),
    { key: "l", name: "Alerts", href: paths.alerts(), icon: "bell", pages: ["alerts"], first: false, bell: true, words: "rules silences firing thresholds" },
    { key: "a", name: "Audit", href: paths.audit(), icon: "audit", pages: ["audit"], first: false, words: "who changed what trail log" },
    { key: "s", name: "Settings", href: paths.settings(), icon: "settings", pages: ["settings"], first: false, words: "thresholds policies tokens theme kiosk" },
  ];
}
