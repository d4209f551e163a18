// How the health that the server derives is shown. Its words are never made here.

import type { Health, Incident, Node, Query } from "./entities.generated";
import type { Shape, Status, Tone } from "./status";

interface Healthy { health: Health }

const SHAPES: Record<Health["tone"], Shape> = { good: "dot", busy: "half", warn: "triangle", bad: "cross", idle: "ring", done: "check" };
const RANKS: Record<Health["tone"], number> = { bad: 0, warn: 2, busy: 3, good: 6, done: 7, idle: 8 };
const ENDED: ReadonlySet<string> = new Set(["recovered", "moved", "incomplete", "aborted"]);
const PAST: ReadonlySet<string> = new Set(["replaced", "gone"]);

export function look({ health }: Healthy): Status {
  const { tone } = health;
  const past = PAST.has(health.state) || health.state === "aborted" || health.state === "stopped";
  return { tone: tone === "done" ? "idle" : tone, shape: past ? "square" : SHAPES[tone], label: health.word, rank: past ? 9 : RANKS[tone] };
}

/** Of an incident: something is still to be done for it, or to be waited for. */
export const isOpen = (incident: Pick<Incident, "health">): boolean => !ENDED.has(incident.health.state);
/** Of an incident: nothing is missing any more. */
export const isRecovered = (incident: Pick<Incident, "health">): boolean => incident.health.state === "recovered" || incident.health.state === "moved";
/** Of a node: it is gone, and nothing waits for it. */
export const isPast = (node: Pick<Node, "health">): boolean => PAST.has(node.health.state);
export const isAvailable = (query: Pick<Query, "health">): boolean => query.health.state === "available";
/** Of a query: it is to give results and does not. */
export const isDown = (query: Pick<Query, "health">): boolean => ["failed", "recovering", "tentative", "starting", "parked"].includes(query.health.state);

/** The query with the worst relative latency among those that are measured; null when none is. */
export function worstQuery<Row extends Pick<Query, "health">>(queries: readonly Row[]): Row | null {
  return queries.reduce<Row | null>((worst, query) => {
    if (query.health.value === null) return worst;
    return worst === null || query.health.value > worst.health.value! ? query : worst;
  }, null);
}

/** The colour of a number beside what it is judged by. */
export const meterTone = ({ tone }: Pick<Health, "tone">): Tone => (tone === "done" || tone === "busy" ? "warn" : tone);
