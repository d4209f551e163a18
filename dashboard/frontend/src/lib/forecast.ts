// When an incident, a wave or a query will be over, in words; the server reckons.

import type { Incident, Over, Predicted, PredictionStage } from "./entities.generated";
import { duration, seconds } from "./format";

const WAITS: Record<PredictionStage, string> = {
  nodes: "nodes",
  start: "executors and checkpoint",
  replay: "replay",
  settle: "steady latency",
};

/** What it waits for. */
export const waitsFor = (stage: PredictionStage): string => WAITS[stage];

/** In steps that grow with it: seconds below 10 s, 5 s below a minute, then 10 s, and 30 s from 5 min. */
export function about(left: number): string {
  if (left < 9.5) return `${Math.max(1, Math.round(left))} s`;
  const step = left < 60 ? 5 : left < 300 ? 10 : 30;
  return duration(Math.round(left / step) * step).replace(/ 0 s$/, "");
}

/** It takes longer than the range of what was expected. */
export const isOverdue = (over: Over, now: number): boolean => (seconds(over.high_at) ?? now) - now < 1;

/** `in about 40 s`, or how long ago it was expected. */
export function leftWords(over: Over, now: number): string {
  const expected = (seconds(over.expected_at) ?? now) - now;
  if (expected >= 1) return `in about ${about(expected)}`;
  return isOverdue(over, now) ? `expected ${about(-expected)} ago` : "at any moment";
}

/** `back in about 40 s`, `not back yet, expected 40 s ago`. */
export const backWords = (over: Over, now: number): string => `${isOverdue(over, now) ? "not back yet," : "back"} ${leftWords(over, now)}`;

/** `25 s to 1 min 10 s`; empty once even its end has passed. */
export function rangeWords(over: Over, now: number): string {
  const [low, high] = [(seconds(over.low_at) ?? now) - now, (seconds(over.high_at) ?? now) - now];
  if (high < 1) return "";
  return low < 1 ? `within ${about(high)}` : `${about(low)} to ${about(high)}`;
}

/** Of a query, given as `topology/query`, in the incidents that are open. */
export function overOfQuery(incidents: Incident[], query: string): Over | null {
  for (const incident of incidents) {
    const found = incident.forecast.queries?.find((one) => one.queries.includes(query));
    if (found) return found;
  }
  return null;
}

export interface CourseRow {
  key: string;
  what: string;
  stage: PredictionStage;
  made: number;
  expected: number;
  low: number;
  high: number;
  over: number | null;
  /** Whether the range held; null while that is not known. */
  held: boolean | null;
}

/** What was predicted beside what came, in seconds since `from`. */
export function courseOf(incident: Incident, from: number): CourseRow[] {
  const since = (time: string): number => (seconds(time) ?? from) - from;
  return (incident.forecast.course ?? []).map((one: Predicted, index): CourseRow => {
    const [low, high] = [since(one.low_at), since(one.high_at)];
    const over = one.over_at === null ? null : since(one.over_at);
    return {
      key: `${index}`,
      what: one.kind === "wave" ? `Plan ${one.subject.replace(/^(.*)\/(\d+)$/, "$2 of $1")}` : "Incident",
      stage: one.stage,
      made: since(one.made_at),
      expected: since(one.expected_at),
      low,
      high,
      over,
      held: over === null ? null : low <= over && over <= high,
    };
  });
}
