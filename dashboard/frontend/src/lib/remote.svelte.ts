// What a page asks the server for beyond the state: the newest answer, how old it is, and what went wrong.

import { ApiError } from "./api";
import { store } from "./store.svelte";

/** 0: no answer at all. */
const PASSING: ReadonlySet<number> = new Set([0, 429, 500, 502, 503, 504]);

export class Remote<T> {
  value = $state.raw<T | null>(null);
  error = $state("");
  /** The error may pass by itself: the server is away, overloaded or asks for patience. */
  passing = $state(false);
  busy = $state(false);
  /** Server time of the answer, in seconds. */
  at = $state(0);
  private asked = 0;

  /** Asks; an answer that another question has overtaken is dropped. What is shown stays until the new one is there. */
  async load(ask: () => Promise<T>): Promise<void> {
    const turn = ++this.asked;
    this.busy = true;
    try {
      const value = await ask();
      if (turn !== this.asked) return;
      this.value = value;
      this.error = "";
      this.at = store.serverNow();
    } catch (problem) {
      if (turn !== this.asked) return;
      this.error = problem instanceof ApiError ? problem.message : String(problem);
      this.passing = problem instanceof ApiError && PASSING.has(problem.status);
    } finally {
      if (turn === this.asked) this.busy = false;
    }
  }

  clear(): void {
    this.asked += 1;
    this.value = null;
    this.error = "";
    this.busy = false;
  }
}
