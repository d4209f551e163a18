import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { actions } from "./actions.svelte";
import { editRule, silence } from "./alertActions";
import { ApiError, create, fetchRule } from "./api";
import type { Rule } from "./entities.generated";

vi.mock("./store.svelte", () => ({
  store: { stale: "", serverNow: () => Date.now() / 1000, entities: { rule: new Map(), topology: new Map() } },
}));
vi.mock("./api", () => ({
  ApiError: class extends Error {
    constructor(message: string, readonly status: number) {
      super(message);
    }
  },
  newKey: () => "key",
  create: vi.fn(),
  fetchRule: vi.fn(),
}));

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("sends the same silence again where the answer was lost", async () => {
  vi.mocked(create).mockRejectedValueOnce(new ApiError("The server cannot be reached.", 0)).mockResolvedValueOnce({});
  silence({ topology: "hashtags" });
  const given = Object.fromEntries(actions.asked!.fields!.map((field) => [field.name, field.value]));
  await actions.confirm("planned work", "", given);
  vi.advanceTimersByTime(5_000);
  await actions.confirm("planned work", "", given);
  const [first, second] = vi.mocked(create).mock.calls;
  expect(first).toEqual(["silences/", { rule: "", topology: "hashtags", seconds: 7_200, reason: "planned work" }, "key"]);
  expect(second).toEqual(first);
});

it("offers the topology of a rule also where that is gone", async () => {
  const rule = { name: "slow", metric: "lag", comparison: "above", threshold: 30, topology: "gone" } as Rule;
  vi.mocked(fetchRule).mockResolvedValue({ rule, tag: "1" });
  editRule(rule);
  await vi.runAllTimersAsync();
  const offered = actions.asked!.fields!.find((field) => field.name === "topology")!;
  expect(offered.value).toBe("gone");
  expect(offered.options!.map((one) => one.value)).toEqual(["", "gone"]);
});
