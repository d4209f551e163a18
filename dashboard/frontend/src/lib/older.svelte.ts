// Checkpoints that are older than those the page follows: read from the server when they are asked for.

import { ApiError, fetchCheckpoint, fetchCheckpoints } from "./api";
import { keyOf } from "./checkpoints";
import type { Checkpoint } from "./entities.generated";

export const PAGE = 200;
/** So many of the newest, of all topologies, the page follows. */
export const FOLLOWED = 400;

export class OlderCheckpoints {
  private found = $state.raw<ReadonlyMap<string, Checkpoint>>(new Map());
  /** Everything that began at this moment or later is there; null until older ones were asked for. */
  private from: string | null = null;
  /** How many the server has besides; null until it was asked. */
  left = $state<number | null>(null);
  busy = $state(false);
  error = $state("");

  /** The followed ones, and those that were read besides. */
  with(followed: readonly Checkpoint[]): Checkpoint[] {
    const known = new Set(followed.map(keyOf));
    return [...followed, ...[...this.found.values()].filter((row) => !known.has(keyOf(row)))];
  }

  /** The page drops the oldest that it follows as others come: behind them would be a gap. */
  keep(followed: readonly Checkpoint[]): void {
    if (this.from !== null) this.found = new Map([...this.found, ...keyed(followed)]);
  }

  /** Reads those before what is there. Some that are followed are older than the newest ones, and do not count for that. */
  async more(followed: readonly Checkpoint[]): Promise<void> {
    const newest = followed.map((row) => row.started_at).sort().reverse().slice(0, FOLLOWED);
    const before = this.from ?? newest.at(-1) ?? "";
    await this.ask(async () => {
      const page = await fetchCheckpoints(before, PAGE);
      this.from = page.results.at(-1)?.started_at ?? before;
      this.left = page.count - page.results.length;
      return [...followed, ...page.results];
    });
  }

  /** Reads one that a link names. */
  async one(topology: string, epoch: number): Promise<void> {
    await this.ask(async () => [await fetchCheckpoint(topology, epoch)]);
  }

  private async ask(read: () => Promise<readonly Checkpoint[]>): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    try {
      const rows = await read();
      this.found = new Map([...this.found, ...keyed(rows)]);
      this.error = "";
    } catch (problem) {
      this.error = problem instanceof ApiError ? problem.message : String(problem);
    } finally {
      this.busy = false;
    }
  }
}

const keyed = (rows: readonly Checkpoint[]): [string, Checkpoint][] => rows.map((row) => [keyOf(row), row]);
