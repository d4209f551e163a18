// Samples of one incident: those the page follows anyway, and, where these do not reach back, those the server keeps.

import { fetchSamples } from "./api";
import { pointsOf, type Point } from "./curve";
import { samplesOf } from "./select";
import { store } from "./store.svelte";

/** Seconds that may be missing before the server is asked. */
const MISSING = 15;
/** Milliseconds until the server may be asked again after an error. */
const AGAIN = 5_000;

/** Reads samples of `from..to` that the store does not have, and those that the store has dropped since. */
export class OlderSamples {
  private older = $state.raw(new Map<string, Point[]>());
  /** By topology, up to when the server was asked; Infinity while its answer is awaited. */
  private readonly asked = new Map<string, number>();
  failed = $state("");

  points(topology: string, from: number, to: number): Point[] {
    const known = pointsOf(samplesOf(topology, from, to));
    const first = known[0]?.at ?? Infinity;
    return [...(this.older.get(topology) ?? []).filter((point) => point.at < first), ...known];
  }

  /** To be called from an effect, and now and then: fetches what is missing before the first sample of the store. */
  fill(topology: string, from: number, to: number): void {
    const first = pointsOf(samplesOf(topology, from, to))[0]?.at ?? Infinity;
    const until = Math.min(to, first, store.serverNow());
    const since = this.older.get(topology)?.at(-1)?.at ?? from;
    if (until - Math.max(since, this.asked.get(topology) ?? from) < MISSING) return;
    this.asked.set(topology, Infinity);
    void fetchSamples(topology, since, until).then(
      (samples) => {
        this.asked.set(topology, until);
        const before = (this.older.get(topology) ?? []).filter((point) => point.at < since);
        this.older = new Map(this.older).set(topology, [...before, ...pointsOf(samples)]);
        this.failed = "";
      },
      (error: unknown) => {
        setTimeout(() => this.asked.delete(topology), AGAIN);
        this.failed = error instanceof Error ? error.message : String(error);
      },
    );
  }
}
