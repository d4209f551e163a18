// Availability over an incident: one curve over all its topologies, weighted by the priorities of their queries.

import type { Sample } from "./entities.generated";
import { seconds } from "./format";

export interface Point {
  at: number;
  available: number;
  total: number;
  /** Share of the summed priorities that is available, 0 to 1. */
  weighted: number;
  /** Queries that are not available and give tentative output. */
  tentative?: number;
}

export function pointsOf(samples: readonly Omit<Sample, "topology">[]): Point[] {
  return samples.flatMap((sample) => {
    const at = seconds(sample.at);
    return at === null ? [] : [{ at, available: sample.available, total: sample.total, weighted: sample.weighted, tentative: sample.tentative }];
  }).sort((a, b) => a.at - b.at);
}

/** One curve from several: at each moment the newest sample of each counts, with its weight. */
export function combine(series: readonly { weight: number; points: readonly Point[] }[]): Point[] {
  const known = series.filter((one) => one.points.length);
  if (known.length === 1) return [...known[0]!.points];
  const moments = known.flatMap((one, which) => one.points.map((point) => ({ which, point }))).sort((a, b) => a.point.at - b.point.at);
  const newest: (Point | undefined)[] = known.map(() => undefined);
  const curve: Point[] = [];
  for (const { which, point } of moments) {
    newest[which] = point;
    if (newest.some((one) => one === undefined)) continue; // only where all are known
    const weight = known.reduce((sum, one) => sum + one.weight, 0) || 1;
    const joined: Point = {
      at: point.at,
      available: newest.reduce((sum, one) => sum + one!.available, 0),
      total: newest.reduce((sum, one) => sum + one!.total, 0),
      tentative: newest.reduce((sum, one) => sum + (one!.tentative ?? 0), 0),
      weighted: known.reduce((sum, one, i) => sum + one.weight * newest[i]!.weighted, 0) / weight,
    };
    if (curve.at(-1)?.at === joined.at) curve[curve.length - 1] = joined;
    else curve.push(joined);
  }
  return curve;
}

/** Mean weighted availability from..to; null where nothing was sampled before the end. */
export function area(points: readonly Point[], from: number, to: number): number | null {
  if (to <= from) return null;
  let level: number | null = null;
  let at = from;
  let sum = 0;
  let covered = 0;
  for (const point of points) {
    if (point.at >= to) break;
    if (point.at > at && level !== null) {
      sum += level * (point.at - at);
      covered += point.at - at;
    }
    at = Math.max(from, point.at);
    level = point.weighted;
  }
  if (level === null) return null;
  sum += level * (to - at);
  covered += to - at;
  return sum / covered;
}
