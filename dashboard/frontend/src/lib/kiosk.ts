// A wall display that walks: the open incidents, the fleet, every topology that runs, and again.

import { byName } from "./format";
import { paths, router } from "./router.svelte";
import { isOpen } from "./health";
import { store } from "./store.svelte";

const LIVE = new Set(["deploying", "running", "degraded", "recovering", "paused"]);

export function stops(): string[] {
  const open = [...store.entities.incident.values()].filter(isOpen).map((one) => paths.incident(one.number));
  const live = [...store.entities.topology.values()].filter((one) => LIVE.has(one.status)).map((one) => one.name).sort(byName);
  return [paths.fleet(), ...open, ...live.map((name) => paths.topology(name))];
}

/** Changes the page every `seconds`; the returned function stops it. With 0 nothing happens. */
export function roundTrip(seconds: number): (() => void) | undefined {
  if (!seconds) return undefined;
  const timer = setInterval(() => {
    const round = stops();
    const here = round.findIndex((stop) => stop === router.path);
    router.go(round[(here + 1) % round.length]!);
  }, seconds * 1000);
  return () => clearInterval(timer);
}
