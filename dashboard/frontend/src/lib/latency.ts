// The limit by which a query's relative latency is judged now; domain/availability/tracker.py decides.

import { boot } from "./boot";
import type { Query } from "./entities.generated";
import type { Tone } from "./status";

export interface Judged {
  /** Above it the query is not available; null while latency alone takes no query down. */
  limit: number | null;
  tone: Tone;
  words: string;
}

const times = (value: number): string => `${value.toFixed(2)}×`;

/** `incident`: whether one of its topology is open. */
export function judge(query: Pick<Query, "available" | "relative_latency">, incident: boolean): Judged {
  const value = query.relative_latency;
  if (!query.available) {
    const tone = value === null ? "idle" : value < boot.theta ? "good" : value < boot.theta * 2 ? "warn" : "bad";
    return { limit: boot.theta, tone, words: `not available; back below ${times(boot.theta)}` };
  }
  const slower = value !== null && value >= boot.theta;
  const tone = value === null ? "idle" : slower ? "warn" : "good";
  if (incident) return { limit: boot.thetaLost, tone, words: `available up to ${times(boot.thetaLost)}` };
  return { limit: null, tone, words: slower ? "slower than usual, and available" : "of the usual latency" };
}

/** The query with the worst relative latency; null when none has one. */
export function worstQuery<Row extends Pick<Query, "available" | "relative_latency">>(queries: readonly Row[]): Row | null {
  return queries.reduce<Row | null>((worst, query) => {
    if (query.relative_latency === null) return worst;
    return worst === null || query.relative_latency > worst.relative_latency! ? query : worst;
  }, null);
}
