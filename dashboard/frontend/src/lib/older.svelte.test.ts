import { beforeEach, describe, expect, it, vi } from "vitest";
import { fetchCheckpoint, fetchCheckpoints } from "./api";
import type { CheckpointDetail } from "./checkpoints";
import type { Checkpoint } from "./entities.generated";
import { FOLLOWED, OlderCheckpoints } from "./older.svelte";

vi.mock("./api", () => ({ ApiError: class extends Error {}, fetchCheckpoint: vi.fn(), fetchCheckpoints: vi.fn() }));

const row = (epoch: number): Checkpoint => ({ topology: "t", epoch, started_at: new Date(epoch * 10_000).toISOString() }) as Checkpoint;
const range = (from: number, to: number): Checkpoint[] => Array.from({ length: to - from + 1 }, (_, i) => row(from + i));
const epochs = (rows: readonly Checkpoint[]): number[] => rows.map((one) => one.epoch).sort((a, b) => a - b);

describe("older checkpoints", () => {
  let older: OlderCheckpoints;
  let newest: number;
  beforeEach(() => {
    older = new OlderCheckpoints();
    newest = 1_000;
    vi.mocked(fetchCheckpoint).mockImplementation(async (_, epoch) => row(epoch) as CheckpointDetail);
    vi.mocked(fetchCheckpoints).mockImplementation(async (before, limit) => {
      const rows = range(1, newest).filter((one) => one.started_at < before).reverse();
      return { count: rows.length, results: rows.slice(0, limit) };
    });
  });
  const followed = (): Checkpoint[] => range(newest - FOLLOWED + 1, newest);

  it("have no gap where some of those that are followed, or named by a link, are much older", async () => {
    await older.one("t", 7);
    const rows = [row(3), row(12), ...followed()];
    await older.more(rows);
    expect(epochs(older.with(rows))).toEqual([3, 7, 12, ...epochs(range(401, 1_000))]);
    expect(older.left).toBe(400);
  });

  it("have no gap where the page drops the oldest that it follows", async () => {
    await older.more(followed());
    for (; newest < 1_900; newest += 300) older.keep(followed());
    older.keep(followed());
    expect(epochs(older.with(followed()))).toEqual(epochs(range(401, 1_900)));
  });

  it("are read until there are no more", async () => {
    for (let turn = 0; older.left !== 0; turn += 1) {
      expect(turn).toBeLessThan(9);
      await older.more(followed());
      newest += 40;
      older.keep(followed());
    }
    expect(epochs(older.with(followed()))).toEqual(epochs(range(1, newest)));
  });
});
