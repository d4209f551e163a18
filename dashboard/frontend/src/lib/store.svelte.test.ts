import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { EventsMessage, Handlers } from "./connection";
import type { NumberedEvent, Snapshot } from "./entities.generated";

const server = vi.hoisted(() => ({ snapshot: vi.fn(), handlers: null as unknown, subscribed: 0, session: { ended: (): void => {} } }));

vi.mock("./api", () => ({
  ApiError: class extends Error {},
  fetchSnapshot: server.snapshot,
  session: server.session,
  fetchRecent: () => Promise.reject(new Error("none")),
}));
vi.mock("./painted", () => ({ painted: () => Promise.resolve() }));
vi.mock("./connection", () => ({
  Connection: class {
    constructor(_: string, handlers: Handlers) {
      server.handlers = handlers;
    }
    open(): void {}
    lose(): void {}
    retryNow(): void {}
    refuse(): void {
      (server.handlers as Handlers).refused();
    }
    subscribe(): void {
      server.subscribed += 1;
    }
  },
}));

const snapshot = (sequence: number): Snapshot => ({ sequence, server_time: new Date().toISOString(), entities: {} }) as unknown as Snapshot;

function message(after: number, count: number): EventsMessage {
  const events = Array.from({ length: count }, (_, i): NumberedEvent => ({
    sequence: after + 1 + i, at: "2026-01-01T00:00:00Z", kind: "topology.updated", topology: null, node: null, incident: null, actor: "", reason: "",
    changes: [{ entity: "node", key: `node-${after + 1 + i}`, fields: { state: "alive" } }],
  }));
  return { type: "events", after, sequence: after + count, events };
}

describe("the store", () => {
  let store: typeof import("./store.svelte").store;
  let handlers: Handlers;
  const settled = (): Promise<unknown> => vi.advanceTimersByTimeAsync(0);
  const signIn = vi.fn();

  beforeEach(async () => {
    vi.useFakeTimers();
    vi.resetModules();
    vi.stubGlobal("location", { protocol: "http:", host: "here" });
    vi.stubGlobal("document", { addEventListener: () => {}, getElementById: () => null });
    vi.stubGlobal("addEventListener", () => {});
    server.snapshot.mockReset().mockResolvedValue(snapshot(10));
    server.session.ended = signIn.mockReset();
    store = (await import("./store.svelte")).store;
    store.start();
    handlers = server.handlers as Handlers;
    await settled();
    handlers.heard(Date.now() / 1000);
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it("stays where the session has ended, so that a form keeps what was filled in", () => {
    server.session.ended();
    expect([store.stale, signIn.mock.calls.length]).toEqual(["You were signed out.", 0]);
  });

  it("is stale while its state cannot be loaded again, and tries at once when it is told to", async () => {
    expect(store.stale).toBe("");
    server.snapshot.mockRejectedValue(new Error("busy"));
    handlers.events(message(20, 1)); // what lies between was missed
    await settled();
    handlers.heard(Date.now() / 1000);
    expect(store.stale).toBe("The state could not be loaded again: Error: busy");
    server.snapshot.mockResolvedValue(snapshot(21));
    store.retryNow();
    await settled();
    expect([store.stale, store.sequence, server.snapshot.mock.calls.length]).toEqual(["", 21, 3]);
  });

  it("applies what waits when updates go on", () => {
    store.setPaused(true);
    handlers.events(message(10, 2));
    handlers.events(message(12, 3));
    expect([store.sequence, store.waiting, handlers.sequence()]).toEqual([10, 5, 15]);
    store.setPaused(false);
    expect([store.sequence, store.waiting, store.entities.node.size]).toEqual([15, 0, 5]);
    expect(server.snapshot).toHaveBeenCalledTimes(1);
  });

  it("drops what waits beyond a number, and loads the state when updates go on", async () => {
    store.setPaused(true);
    for (let after = 10; after < 5_010; after += 100) handlers.events(message(after, 100));
    expect([store.sequence, store.waiting, handlers.sequence()]).toEqual([10, 5_000, 5_010]);
    expect((store as unknown as { held: EventsMessage[] }).held.flatMap((one) => one.events)).toEqual([]);
    server.snapshot.mockResolvedValue(snapshot(5_020));
    store.setPaused(false);
    await settled();
    expect([store.sequence, store.waiting, server.snapshot.mock.calls.length]).toEqual([5_020, 0, 2]);
  });

  it("keeps its state while paused when the server asks to load it, and loads it when updates go on", async () => {
    store.setPaused(true);
    server.snapshot.mockResolvedValue(snapshot(900));
    handlers.resync();
    await settled();
    expect([store.sequence, server.snapshot.mock.calls.length]).toEqual([10, 1]);
    store.setPaused(false);
    await settled();
    expect([store.sequence, server.snapshot.mock.calls.length]).toEqual([900, 2]);
  });
});
