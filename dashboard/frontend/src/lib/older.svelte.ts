// Checkpoints that are older than those the page follows: read from the server when they are asked for.

import { ApiError, fetchCheckpoint, fetchCheckpoints } from "./api";
import { keyOf } from "./checkpoints";
import type { Checkpoint } from "./entities.generated";

export const PAGE = 200;
/** So many of the newest, of all topologies, the page follows. */
export const FOLLOWED = 400;

export class OlderCheckpoints {
  private found = $state.raw<ReadonlyMap<string, Checkpoint>>(new Map());
  /** How many the server has; null until it was asked. */
  total = $state<number | null>(null);
  busy = $state(false);
  error = $state("");

  /** The followed ones, and those that were read besides. */
  with(followed: readonly Checkpoint[]): Checkpoint[] {
    const known = new Set(followed.map(keyOf));
    return [...followed, ...[...this.found.values()].filter((row) => !known.has(keyOf(row)))];
  }

  /** Reads the next page behind so many. */
  async more(behind: number): Promise<void> {
    await this.ask(async () => {
      const page = await fetchCheckpoints(behind, PAGE);
      this.total = page.count;
      return page.results;
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
      this.found = new Map([...this.found, ...rows.map((row) => [keyOf(row), row] as const)]);
      this.error = "";
    } catch (problem) {
      this.error = problem instanceof ApiError ? problem.message : String(problem);
    } finally {
      this.busy = false;
    }
  }
}
