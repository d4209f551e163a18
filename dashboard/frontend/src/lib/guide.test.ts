import { describe, expect, it } from "vitest";
import type { Incident, Node, Operation, Partition, Topology } from "./entities.generated";
import { arrivals, FRESH, incidentOf, meanDown, measured, stepOf, target, tourRead, verificationOf, type Tour } from "./guide";

const health = (state: string, value = 15, limit = 15) => ({ state, word: state, tone: "good", value, limit, note: "", since: null });
const topology = (name: string, changes = {}) => ({ name, status: "running", health: health("running"), ...changes }) as unknown as Topology;
const node = (name: string, rack: string, state = "alive") => ({ name, rack, state }) as unknown as Node;
const hosted = (name: string, on: string) => ({ topology: "hashtags", partition: name, node: on }) as unknown as Partition;
const incident = (changes = {}) => ({
  number: 4, failed_nodes: ["b1"], topologies: ["hashtags"], health: health("restoring"), summary: {},
  detected_at: "2026-01-01T00:00:00Z", first_query_at: null, half_queries_at: null, all_queries_at: null, closed_at: null, ...changes,
}) as unknown as Incident;
const running: Tour = { ...FRESH, stage: "running", topology: "hashtags", rack: "b", after: 3, since: "2026-01-01T00:00:00Z" };
const four = [node("a1", "a"), node("a2", "a"), node("b1", "b"), node("b2", "b")];

describe("the target of the tour", () => {
  it("is the rack with most partitions of the topology with most queries", () => {
    const rows = [hosted("A[0]", "a1"), hosted("A[1]", "b1"), hosted("A[2]", "b2")];
    const found = target([topology("small", { health: health("running", 2, 2) }), topology("hashtags")], four, rows);
    expect([found?.topology.name, found?.rack, found?.partitions]).toEqual(["hashtags", "b", 2]);
  });
  it("is nothing where a query is down, where only that rack is left, or where nothing runs on a rack", () => {
    const rows = [hosted("A[0]", "b1")];
    expect(target([topology("hashtags", { health: health("degraded", 14) })], four, rows)).toBeNull();
    expect(target([topology("hashtags")], [node("b1", "b"), node("a1", "a", "lost")], rows)).toBeNull();
    expect(target([topology("hashtags")], four, [])).toBeNull();
  });
});

describe("a step", () => {
  it("is read off what has happened", () => {
    expect(stepOf(running, null, null)).toBe("predict");
    expect(stepOf({ ...running, predicted: true }, null, null)).toBe("fail");
    expect(stepOf(running, incident(), null)).toBe("watch");
    const over = incident({ health: health("recovered") });
    expect(stepOf(running, over, null)).toBe("compare");
    expect(stepOf({ ...running, compared: true }, over, null)).toBe("verify");
    const operation = { kind: "topology.verify", target: "hashtags", state: "succeeded", created_at: "2026-01-01T00:01:00Z", result: { exact: 15, queries: 15, epoch: 9, rows: 10 } } as unknown as Operation;
    const found = verificationOf(running, [operation]);
    expect(stepOf({ ...running, compared: true }, over, found)).toBe("end");
    expect(verificationOf({ ...running, since: "2026-01-01T00:02:00Z" }, [operation])).toBeNull();
  });
  it("belongs to the first loss since the tour began", () => {
    const before = incident({ number: 3 });
    const drain = incident({ number: 5, failed_nodes: [] });
    expect(incidentOf(running, [before, drain])).toBeNull();
    expect(incidentOf(running, [incident({ number: 7 }), incident({ number: 6 }), drain])?.number).toBe(6);
    expect(incidentOf({ ...running, incident: 7 }, [incident({ number: 6 }), incident({ number: 7 })])?.number).toBe(7);
  });
});

describe("what is kept", () => {
  it("is a fresh tour where it cannot be read", () => {
    expect(tourRead(null)).toEqual(FRESH);
    expect(tourRead("{")).toEqual(FRESH);
    expect(tourRead('{"stage": "running"}')).toEqual(FRESH);
    expect(tourRead('{"stage": "left"}').stage).toBe("left");
    expect(tourRead(JSON.stringify(running))).toEqual(running);
  });
});

describe("figures", () => {
  it("count a query that did not return until the end", () => {
    const found = measured(incident({
      summary: { failed_queries: { hashtags: ["O1[0]", "O2[0]"] }, returned: { "hashtags/O1[0]": "2026-01-01T00:00:10Z" } },
      first_query_at: "2026-01-01T00:00:10Z", closed_at: "2026-01-01T00:00:40Z",
    }));
    expect(found).toEqual({ first: 10, half: null, all: null, mean: 25 });
  });
  it("of a predicted course count from the failure to the horizon", () => {
    const none = { tentative: 0, weighted_tentative: 0 };
    const curve = [{ at: -5, available: 2, total: 2, weighted: 1, ...none }, { at: 0, available: 0, total: 2, weighted: 0, ...none }, { at: 10, available: 1, total: 2, weighted: 0.5, ...none }];
    expect(meanDown(curve, 30)).toBe(20);
    expect(meanDown([{ at: 0, available: 2, total: 2, weighted: 1, ...none }], 30)).toBeNull();
  });
  it("know when the replacements came", () => {
    const entries = [{ at: "2026-01-01T00:00:30Z", data: { fact: "arrived" } }, { at: "2026-01-01T00:00:12Z", data: { fact: "arrived" } }, { at: "2026-01-01T00:00:13Z", data: {} }];
    expect(arrivals(incident(), entries)).toEqual([12, 30]);
  });
});
