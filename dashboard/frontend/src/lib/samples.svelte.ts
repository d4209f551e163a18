// Samples of one incident: those the page follows anyway, and, where these do not reach back, those the server keeps.

import { fetchSamples } from "./api";
import { pointsOf, type Point } from "./curve";
import { samplesOf } from "./select";

/** Reads samples of `from..to` that the store does not have; asks the server once for each topology. */
export class OlderSamples {
  private older = $state.raw(new Map<string, Point[]>());
  private readonly asked = new Set<string>();
  failed = $state("");

  points(topology: string, from: number, to: number): Point[] {
    const known = pointsOf(samplesOf(topology, from, to));
    const first = known[0]?.at ?? Infinity;
    return [...(this.older.get(topology) ?? []).filter((point) => point.at < first), ...known];
  }

  /** To be called from an effect: fetches what is missing at the beginning. */
  fill(topology: string, from: number, to: number): void {
    const first = pointsOf(samplesOf(topology, from, to))[0]?.at ?? Infinity;
    if (first - from < 15 || this.asked.has(topology)) return;
    this.asked.add(topology);
    void fetchSamples(topology, from, Math.min(to, first)).then(
      (samples) => (this.older = new Map(this.older).set(topology, pointsOf(samples))),
      (error: unknown) => (this.failed = error instanceof Error ? error.message : String(error)),
    );
  }
}
