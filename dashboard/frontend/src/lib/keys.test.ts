import { describe, expect, it } from "vitest";
import type { NodeKeys } from "./entities.generated";
import { clock } from "./format";
import { breaker, failuresWords, fetching, keysFacts, keysOf, storing } from "./keys";

const nothing: NodeKeys = {
  stored: 0, stored_bytes: 0, segments: 0, waiting: 0, storing_failures: 0, storing_bypassed_until: 0, fetching_failures: 0, fetching_bypassed_until: 0, error: "",
  fetched: 0, unknown: 0, unanswered: 0, bypassed: 0, refused: 0, lost_rows: 0, changed: 0, oldest: 0,
};
const NOW = 1_800_000_000;
const facts = (...rows: Partial<NodeKeys>[]) => Object.fromEntries(keysFacts(keysOf({ keys: Object.fromEntries(rows.map((row, at) => [`node-${at + 1}`, { ...nothing, ...row }])) }), NOW).map((one) => [one.name, one]));

describe("the states of keys", () => {
  it("are listed by node", () => {
    expect(keysOf({ keys: {} })).toEqual([]);
    expect(keysOf({ keys: { "node-10": nothing, "node-2": nothing } }).map((row) => row.node)).toEqual(["node-2", "node-10"]);
  });

  it("add up over all nodes", () => {
    const found = facts(
      { stored: 1_200, stored_bytes: 40_000_000, changed: 30, oldest: 12, waiting: 1, fetched: 9, unknown: 2, lost_rows: 7 },
      { stored: 34, stored_bytes: 5_000_000, changed: 4, oldest: 20.2, fetched: 1, bypassed: 3 },
    );
    expect(found["Stored"]?.value).toBe("1,234 states, 45 MB");
    expect(found["Changed, not stored yet"]?.value).toBe("34 keys, the first 20 s ago");
    expect(found["Waiting"]).toMatchObject({ value: "1 request", tone: "" });
    expect(found["Asked for after a loss"]?.value).toBe("10 fetched, 2 unknown, 3 bypassed");
    expect(found["Rows lost"]).toMatchObject({ value: "7", tone: "warn" });
    expect(found["Storage"]).toMatchObject({ value: "asked by all", tone: "" });
  });

  it("are told where there are none", () => {
    const found = facts({});
    expect([found["Changed, not stored yet"]?.value, found["Asked for after a loss"]?.value, found["Rows lost"]?.tone]).toEqual(["none", "none", ""]);
  });

  it("say which nodes have no storage, and what was refused", () => {
    expect(facts({ fetching_bypassed_until: NOW + 60, error: "gone" }, { refused: 12, error: "slow" })).toMatchObject({
      Storage: { value: "bypassed by 1 of 2 nodes", tone: "bad" }, Waiting: { value: "0 requests, 12 refused so far", tone: "warn" },
    });
    expect(facts({ error: "slow" }, {})["Storage"]).toMatchObject({ value: "fails on 1 of 2 nodes", tone: "warn" });
    expect(facts({}, { error: "slow" })["Last error"]).toMatchObject({ value: "node-2: slow", tone: "warn" });
    expect(facts({})["Last error"]).toBeUndefined();
  });
});

describe("whether the storage is asked", () => {
  it("depends on the failures in a row and on the time", () => {
    expect(breaker(0, 0, NOW)).toMatchObject({ word: "storage asked", tone: "good" });
    expect(breaker(3, 0, NOW)).toMatchObject({ word: "storage asked", tone: "warn" });
    expect(breaker(10, NOW + 70, NOW)).toMatchObject({ word: `bypassed until ${clock(NOW + 70, NOW)}`, tone: "bad" });
    expect(breaker(10, NOW, NOW)).toMatchObject({ word: "tried again", tone: "busy" });
  });

  it("is known of storing and of fetching each", () => {
    const row = { ...nothing, storing_failures: 10, storing_bypassed_until: NOW + 1, fetching_failures: 2 };
    expect([storing(row, NOW).rank, fetching(row, NOW).rank]).toEqual([0, 2]);
  });

  it("comes with the failures", () => expect([failuresWords(0), failuresWords(1), failuresWords(4)]).toEqual(["", "1 failure in a row", "4 failures in a row"]));
});
