import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { actions, type Action } from "./actions.svelte";
import { act, ApiError, fetchOperation, replace } from "./api";
import type { Operation } from "./entities.generated";

vi.mock("./store.svelte", () => ({ store: { stale: "", entities: { operation: new Map() } } }));
vi.mock("./api", () => ({
  ApiError: class extends Error {
    constructor(message: string, readonly status: number) {
      super(message);
    }
  },
  newKey: () => "key",
  act: vi.fn(),
  replace: vi.fn(),
  fetchOperation: vi.fn(),
}));

const action: Action = { title: "Drain node-1", verb: "Drain", path: "nodes/node-1/drain/", explain: "", consequences: [] };
const operation = (state: Operation["state"]): Operation => ({ id: "1", state, error: "", result: {} }) as Operation;

describe("an action", () => {
  beforeEach(() => {
    vi.useFakeTimers();
    vi.mocked(act).mockReset().mockResolvedValue(operation("pending"));
    vi.mocked(fetchOperation).mockReset().mockResolvedValue(operation("running"));
  });
  afterEach(() => {
    for (const notice of actions.notices) actions.dismiss(notice.id);
    vi.useRealTimers();
  });
  const told = (): string[] => actions.notices.map((notice) => notice.state);
  const minutes = (number: number): Promise<unknown> => vi.advanceTimersByTimeAsync(number * 60_000);

  it("is followed to its end, however long it takes", async () => {
    actions.ask(action);
    await actions.confirm("a test");
    await minutes(20);
    expect(told()).toEqual(["running"]);
    vi.mocked(fetchOperation).mockClear();
    await minutes(10);
    expect(fetchOperation).toHaveBeenCalledTimes(60);
    vi.mocked(fetchOperation).mockResolvedValue(operation("failed"));
    await minutes(1);
    expect(told()).toEqual(["failed"]);
  });

  it("is not followed any more once its notice was dismissed", async () => {
    actions.ask(action);
    await actions.confirm("a test");
    await minutes(1);
    actions.dismiss("1");
    await minutes(1);
    vi.mocked(fetchOperation).mockClear();
    await minutes(10);
    expect([told(), vi.mocked(fetchOperation).mock.calls.length]).toEqual([[], 0]);
  });

  it("keeps its place among others, and is told of once where nothing changes", async () => {
    const ids = ["a", "b", "c", "d", "e", "f"];
    for (const id of ids) {
      vi.mocked(act).mockResolvedValueOnce({ ...operation("running"), id });
      vi.mocked(fetchOperation).mockImplementation(async (asked) => ({ ...operation("running"), id: asked }));
      actions.ask(action);
      await actions.confirm("a test");
    }
    const before = actions.notices;
    for (let turn = 0; turn < 20; turn += 1) {
      await vi.advanceTimersByTimeAsync(130);
      expect(actions.notices.map((notice) => notice.id)).toEqual(ids);
    }
    expect(actions.notices).toBe(before);
    for (const id of ids) actions.dismiss(id);
  });

  it.each([
    [412, [null, 1]],
    [400, [expect.anything(), 0]],
  ])("whose edit is answered with %i leaves the dialog only if it was made from something else", async (status, expected) => {
    const outdated = vi.fn();
    vi.mocked(replace).mockRejectedValueOnce(new ApiError("changed", status));
    actions.ask({ ...action, edit: "replace", outdated });
    await actions.confirm("a test");
    expect([actions.asked, outdated.mock.calls.length]).toEqual(expected);
    expect(actions.error).toBe("changed");
    actions.cancel();
  });
});
