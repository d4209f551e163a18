// Times in which queries continued without a part of their input.

import { count } from "./format";

/** As `topologies/{t}/tentative/` has it. */
export interface TentativePeriod {
  query: string;
  began_at: string;
  ended_at: string | null;
  first_epoch: number;
  last_epoch: number;
  /** The least share of its output that was left, 0 to 1. */
  fidelity: number;
  corrected_at: string | null;
  stayed: number;
  changed: number;
  appeared: number;
  vanished: number;
  problem: string;
}

/** Seconds that it took, or takes up to now. */
export const lasted = (period: Pick<TentativePeriod, "began_at" | "ended_at">, now: number): number =>
  Math.max(0, (period.ended_at ? Date.parse(period.ended_at) / 1000 : now) - Date.parse(period.began_at) / 1000);

/** What became of the rows, in words: `1,204 stayed, 63 changed, 440 new`. */
export function became(period: Pick<TentativePeriod, "stayed" | "changed" | "appeared" | "vanished">): string {
  const parts = [
    [period.stayed, "stayed"], [period.changed, "changed"], [period.appeared, "new"], [period.vanished, "vanished"],
  ] as const;
  return parts.filter(([number]) => number > 0).map(([number, word]) => `${count(number)} ${word}`).join(", ") || "no rows";
}
