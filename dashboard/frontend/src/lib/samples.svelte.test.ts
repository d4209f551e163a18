import { flushSync } from "svelte";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { fetchSamples } from "./api";
import type { Sample } from "./entities.generated";
import { OlderSamples } from "./samples.svelte";
import { samplesOf } from "./select";

const at = (second: number): string => new Date(second * 1000).toISOString();
const sample = (second: number): Sample => ({ topology: "t", at: at(second), available: second, total: 9, weighted: 1, tentative: 0 });
const range = (from: number, to: number): Sample[] => Array.from({ length: to - from + 1 }, (_, i) => sample(from + i));

vi.mock("./store.svelte", () => ({ store: { serverNow: () => 1_100 } }));
vi.mock("./select", () => ({ samplesOf: vi.fn() }));
vi.mock("./api", () => ({ fetchSamples: vi.fn() }));

describe("the samples of an incident that is open", () => {
  let older: OlderSamples;
  const settled = (): Promise<unknown> => new Promise((done) => setTimeout(done));
  const shown = (): number[] => older.points("t", 100, Infinity).map((point) => point.at);
  const fill = async (): Promise<void> => {
    older.fill("t", 100, Infinity);
    await settled();
    flushSync();
  };
  const stored = (samples: Sample[]): void => void vi.mocked(samplesOf).mockReturnValue(samples);

  beforeEach(() => {
    older = new OlderSamples();
    vi.mocked(fetchSamples).mockReset().mockImplementation(async (_, since, until) => range(since, until - 1));
  });
  afterEach(() => void vi.mocked(samplesOf).mockReset());

  it("have no hole where the store drops its oldest ones", async () => {
    for (const first of [300, 310, 700, 714, 900]) {
      stored(range(first, 1_000));
      await fill();
    }
    expect(vi.mocked(fetchSamples).mock.calls).toEqual([["t", 100, 300], ["t", 299, 700], ["t", 699, 900]]);
    expect(shown()).toEqual(range(100, 1_000).map((one) => Date.parse(one.at) / 1000));
  });

  it("are asked for once while there is no answer, and once where there are none", async () => {
    stored(range(300, 1_000));
    vi.mocked(fetchSamples).mockResolvedValue([]);
    older.fill("t", 100, Infinity);
    await fill();
    await fill();
    expect(fetchSamples).toHaveBeenCalledTimes(1);
  });

  it("are asked for up to now where the store has none", async () => {
    stored([]);
    await fill();
    expect(vi.mocked(fetchSamples).mock.calls).toEqual([["t", 100, 1_100]]);
    expect(shown()).toHaveLength(1_000);
  });

  it("are asked for again some seconds after an error", async () => {
    vi.useFakeTimers();
    stored(range(300, 1_000));
    vi.mocked(fetchSamples).mockRejectedValueOnce(new Error("away"));
    for (const pause of [0, 4_000, 1_000, 0]) {
      older.fill("t", 100, 1_000);
      await vi.advanceTimersByTimeAsync(pause);
      if (pause) expect([older.failed, shown()[0], vi.mocked(fetchSamples).mock.calls.length]).toEqual(["away", 300, 1]);
    }
    vi.useRealTimers();
    flushSync();
    expect(vi.mocked(fetchSamples).mock.calls).toEqual([["t", 100, 300], ["t", 100, 300]]);
    expect([older.failed, shown().length]).toEqual(["", 901]);
  });
});
