import { afterEach, describe, expect, it, vi } from "vitest";
import type { Entry, Plan } from "./entities.generated";
import { entriesWith, plansWith, readRecord } from "./record";

const entry = (at: string, text: string): Entry => ({ incident: 3, at, kind: "decision", text, data: {} }) as Entry;
const plan = (generation: number, state: Plan["state"] = "verified"): Plan => ({ topology: "t", incident: 3, generation, state }) as Plan;

describe("the record of an incident", () => {
  afterEach(() => void vi.unstubAllGlobals());
  const answers: Record<string, unknown> = {
    "/api/v1/incidents/3/": { number: 3, state: "closed", entries: [{ id: 11, at: "1", kind: "decision", text: "a", data: {} }, { id: 12, at: "2", kind: "decision", text: "b", data: {} }] },
    "/api/v1/incidents/3/plans/?limit=1000": { results: [plan(4), plan(5, "applied")] },
  };
  const read = () => {
    vi.stubGlobal("fetch", async (address: string) => new Response(JSON.stringify(answers[address])));
    return readRecord(3);
  };

  it("has what the page does not follow", async () => {
    const record = await read();
    expect(record.incident).toEqual({ number: 3, state: "closed" });
    expect(entriesWith(record, [])).toEqual([["11", entry("1", "a")], ["12", entry("2", "b")]]);
    expect(plansWith(record, [])).toEqual([plan(4), plan(5, "applied")]);
  });

  it("has each line and plan once, as the page follows it", async () => {
    const record = await read();
    expect(entriesWith(record, [["12", entry("2", "b")], ["13", entry("3", "c")]]).map(([key]) => key)).toEqual(["11", "12", "13"]);
    expect(plansWith(record, [plan(5), plan(6)])).toEqual([plan(4), plan(5), plan(6)]);
  });

  it("is what the page follows until it was read", () => {
    expect(entriesWith(null, [["13", entry("3", "c")]])).toEqual([["13", entry("3", "c")]]);
    expect(plansWith(null, [plan(6)])).toEqual([plan(6)]);
  });
});
