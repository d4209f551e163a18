import { flushSync } from "svelte";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ApiError } from "./api";
import { Remote } from "./remote.svelte";

vi.mock("./store.svelte", () => ({ store: { serverNow: () => 7 } }));

/** A server that answers when told to. */
class Slow {
  readonly asked: { answer: (value: string) => void; fail: (problem: Error) => void }[] = [];
  ask = (): Promise<string> => new Promise((answer, fail) => this.asked.push({ answer, fail }));
}

describe("a question that is asked again", () => {
  let server: Slow;
  let remote: Remote<string>;
  let destroy: () => void;
  beforeEach(() => {
    server = new Slow();
    destroy = $effect.root(() => void (remote = new Remote<string>()));
    flushSync();
  });
  afterEach(() => destroy());
  const settled = (): Promise<unknown> => new Promise((done) => setTimeout(done));

  it("is answered although every answer takes longer than the pause between two questions", async () => {
    for (let turn = 0; turn < 5; turn += 1) void remote.load("rows", server.ask);
    expect(server.asked).toHaveLength(1);
    server.asked[0]!.answer("first");
    await settled();
    expect(remote.value).toBe("first");
    expect(server.asked).toHaveLength(2);
    server.asked[1]!.answer("second");
    await settled();
    expect([remote.value, remote.busy, server.asked.length]).toEqual(["second", false, 2]);
  });

  it("is asked again after an error, too", async () => {
    void remote.load("rows", server.ask);
    void remote.load("rows", server.ask);
    server.asked[0]!.fail(new ApiError("away", 503));
    await settled();
    expect([remote.error, remote.passing, remote.busy]).toEqual(["away", true, true]);
    server.asked[1]!.answer("back");
    await settled();
    expect([remote.value, remote.error, remote.busy]).toEqual(["back", "", false]);
  });

  it("is overtaken by another question, whose answer alone is shown", async () => {
    void remote.load("rows of O1", server.ask);
    void remote.load("rows of O1", server.ask);
    void remote.load("rows of O2", server.ask);
    expect(server.asked).toHaveLength(2);
    server.asked[0]!.answer("O1");
    await settled();
    expect([remote.value, remote.busy]).toEqual([null, true]);
    server.asked[1]!.answer("O2");
    await settled();
    expect([remote.value, remote.busy, server.asked.length]).toEqual(["O2", false, 2]);
  });

  it("is dropped when the page has turned to something else", async () => {
    void remote.load("rows", server.ask);
    void remote.load("rows", server.ask);
    remote.clear();
    server.asked[0]!.answer("late");
    await settled();
    expect([remote.value, remote.busy, server.asked.length]).toEqual([null, false, 1]);
  });

  it("is not asked any more once its component has gone", async () => {
    void remote.load("rows", server.ask);
    void remote.load("rows", server.ask);
    destroy();
    server.asked[0]!.answer("late");
    await settled();
    expect([remote.value, server.asked.length]).toEqual([null, 1]);
  });
});
