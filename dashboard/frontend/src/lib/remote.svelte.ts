// What a page asks the server for beyond the state: the newest answer, how old it is, and what went wrong.

import { ApiError } from "./api";
import { store } from "./store.svelte";

/** 0: no answer at all. */
const PASSING: ReadonlySet<number> = new Set([0, 429, 500, 502, 503, 504]);

/** Whether an error may pass by itself: the server is away, overloaded or asks for patience. */
export const passes = (problem: unknown): boolean => problem instanceof ApiError && PASSING.has(problem.status);

export class Remote<T> {
  value = $state.raw<T | null>(null);
  error = $state("");
  passing = $state(false);
  busy = $state(false);
  /** Server time of the answer, in seconds. */
  at = $state(0);
  private asked = 0;
  private of: string | null = null;
  /** The same question again, while its answer is awaited. */
  private next: (() => Promise<T>) | null = null;

  /** Of a component: once that has gone, nothing is asked and no answer taken any more. */
  constructor() {
    $effect(() => () => {
      this.asked += 1;
      this.next = null;
    });
  }

  /** Asks. What is shown stays until the new answer is there.

  of: names the question. Another question overtakes the one before, whose answer is dropped. The same question waits until
  the one before is answered: a server that takes longer than the pause between two questions would otherwise never be heard,
  and get ever more of them. */
  async load(of: string, ask: () => Promise<T>): Promise<void> {
    if (of === this.of) {
      this.next = ask;
      return;
    }
    const turn = ++this.asked;
    this.of = of;
    this.next = null;
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
      this.passing = passes(problem);
    } finally {
      if (turn === this.asked) this.answered(of);
    }
  }

  private answered(of: string): void {
    const next = this.next;
    this.of = this.next = null;
    this.busy = false;
    if (next) void this.load(of, next);
  }

  clear(): void {
    this.asked += 1;
    this.of = this.next = null;
    this.value = null;
    this.error = "";
    this.busy = false;
  }
}
