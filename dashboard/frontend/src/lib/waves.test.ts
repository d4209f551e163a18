import { describe, expect, it } from "vitest";
import type { Entry, Incident, Plan } from "./entities.generated";
import { arrivals, course, movedWords, origins, proposedWaves, routesOf, waveMarks, waveOfPlan } from "./waves";

const time = (second: number): string => new Date(1_700_000_000_000 + second * 1000).toISOString();
const plan = {
  topology: "t", incident: 1, wave: 1, generation: 5, kind: "recover", method: "incremental", rollback: false, buffering: true, checkpoint: 40,
  assignment: { "O1[0]": "n2", "O2[0]": "n1", "O3[0]": "n9" }, restore: ["O2[0]", "O1[0]"], state: "applied", reason: "because",
  explanation: { queries: ["O2[0]"], cost_percent: 40, capacity_percent: 80, placed: { "O1[0]": "n2", "O2[0]": "n1" } },
  created_at: time(0), published_at: time(10), applied_at: time(20), caught_up_at: null, verified_at: null,
} as unknown as Plan;
const entry = (second: number, data: Record<string, unknown>): Entry => ({ incident: 1, at: time(second), kind: "step", text: "", data });

describe("waves", () => {
  it("read a plan", () => {
    const wave = waveOfPlan(plan);
    expect([wave.nodes, wave.restore, wave.queries, wave.state]).toEqual([["n1", "n2"], ["O1[0]", "O2[0]"], ["O2[0]"], "applied"]);
    expect(waveOfPlan({ ...plan, caught_up_at: time(30) }).state).toBe("caught_up");
  });
  it("read a plan without an explanation", () => {
    const wave = waveOfPlan({ ...plan, explanation: {} });
    expect([wave.queries, wave.explanation.cost, wave.explanation.reasons]).toEqual([[], null, []]);
  });
  it("may move what runs", () => {
    const moving = { ...plan, method: "move", explanation: { placed: { "O1[0]": "n2", "O2[0]": "n1", "O3[0]": "n2" }, moved_from: { "O1[0]": "n10", "O2[0]": "n9", "O3[0]": "n10" } }, restore: ["O1[0]", "O2[0]", "O3[0]"] } as unknown as Plan;
    const wave = waveOfPlan(moving);
    expect([wave.moves, wave.state, origins(wave), movedWords(wave)]).toEqual([true, "catching_up", ["n9", "n10"], "3 partitions moved"]);
    expect(routesOf(wave)).toEqual([{ from: "n9", to: "n1", partitions: ["O2[0]"] }, { from: "n10", to: "n2", partitions: ["O1[0]", "O3[0]"] }]);
    expect(waveOfPlan({ ...moving, caught_up_at: time(30) }).state).toBe("caught_up");
    expect(movedWords(waveOfPlan({ ...moving, applied_at: null, restore: ["O1[0]"] }))).toBe("1 partition to move");
    expect([waveOfPlan(plan).moves, routesOf(waveOfPlan(plan)), origins(waveOfPlan(plan))]).toEqual([false, [], []]);
  });
  it("find the explanation of a proposal in the story", () => {
    const proposal = { proposal: "t-w2-abc", generation: 5, wave: 2, method: "incremental", rollback: false, restore: ["O4[0]"], queries: [], reason: "r" };
    const told = [entry(1, { fact: "proposed", proposal: "t-w2-old" }), entry(9, { fact: "proposed", proposal: "t-w2-abc", explanation: { cost_percent: 12, checkpoint: 40 } })];
    const [wave] = proposedWaves({ proposals: { t: proposal } } as unknown as Incident, told);
    expect([wave?.explanation.cost, wave?.checkpoint, wave?.proposal, wave?.state]).toEqual([12, 40, "t-w2-abc", "proposed"]);
  });
  it("spend their time in steps", () => {
    const start = 1_700_000_000;
    expect(course(waveOfPlan(plan), start, start + 40)).toEqual([
      { step: "planned", from: 0, to: 0.25 }, { step: "published", from: 0.25, to: 0.5 }, { step: "replaying", from: 0.5, to: 1 },
    ]);
    expect(course(waveOfPlan({ ...plan, caught_up_at: time(30) }), start, start + 40).at(-1)).toEqual({ step: "replaying", from: 0.5, to: 0.75 });
    expect(course(waveOfPlan({ ...plan, state: "superseded", published_at: null, applied_at: null }), start, start + 40)).toEqual([{ step: "planned", from: 0, to: 0 }]);
  });
  it("are marked when they are applied, and nodes when they come", () => {
    expect(waveMarks([waveOfPlan(plan)]).map((mark) => mark.text)).toEqual(["wave 1"]);
    const came = [entry(1, { fact: "arrived", node: "n8" }), entry(1.4, { fact: "arrived", node: "n9" }), entry(30, { fact: "arrived", node: "n10" }), entry(31, { fact: "lost" })];
    expect(arrivals(came).map((mark) => mark.text)).toEqual(["+ n8, n9", "+ n10"]);
  });
});
