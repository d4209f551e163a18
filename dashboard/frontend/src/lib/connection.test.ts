import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { backOff, Connection, type Handlers } from "./connection";

describe("backOff", () => {
  it("grows, with some chance in it, up to a limit", () => {
    expect([0, 1, 2, 3, 10].map((attempt) => backOff(attempt, () => 1))).toEqual([500, 1000, 2000, 4000, 10_000]);
    expect(backOff(0, () => 0)).toBe(300);
  });
});

/** A socket over a network that answers nothing: it opens when told to, and never ends by itself. */
class Silent {
  static readonly OPEN = 1;
  static readonly made: Silent[] = [];
  readyState = 0;
  onopen: (() => void) | null = null;
  onmessage: ((message: { data: string }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  constructor() {
    Silent.made.push(this);
  }
  send(): void {}
  close(): void {
    this.readyState = 2;
  }
  establish(): void {
    this.readyState = 1;
    this.onopen?.();
  }
}

describe("a connection that is half open", () => {
  const told: string[] = [];
  const handlers = Object.fromEntries(["events", "resync", "heard", "opened", "closed", "refused"].map((name) => [name, () => void told.push(name)])) as unknown as Handlers;
  handlers.sequence = () => 3;

  beforeEach(() => {
    vi.useFakeTimers();
    vi.stubGlobal("WebSocket", Silent);
    Silent.made.length = told.length = 0;
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it("is given up without waiting for its end, and tried again", () => {
    new Connection("ws://here/", handlers).open();
    Silent.made[0]!.establish();
    Silent.made[0]!.onmessage?.({ data: JSON.stringify({ type: "ping", at: 1 }) });
    vi.advanceTimersByTime(11_000);
    expect(told).toEqual(["opened", "heard"]);
    vi.advanceTimersByTime(1_000);
    expect(told).toEqual(["opened", "heard", "closed"]);
    vi.advanceTimersByTime(1_000);
    expect(Silent.made.length).toBe(2);
    Silent.made[1]!.establish();
    Silent.made[0]!.onclose?.({ code: 1006 }); // the browser has noticed at last
    Silent.made[0]!.onmessage?.({ data: JSON.stringify({ type: "ping", at: 2 }) });
    expect(told).toEqual(["opened", "heard", "closed", "opened"]);
  });

  it("is not tried again by itself where the session has ended, and is when the user comes back", () => {
    const connection = new Connection("ws://here/", handlers);
    connection.open();
    connection.lose();
    connection.refuse();
    vi.advanceTimersByTime(60_000);
    expect([told, Silent.made.length]).toEqual([["closed", "refused"], 1]);
    connection.retryNow();
    expect(Silent.made.length).toBe(2);
  });
});
