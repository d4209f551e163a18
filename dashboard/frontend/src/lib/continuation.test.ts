import { describe, expect, it } from "vitest";
import { deployment as deploymentOf, type Continuation } from "./continuation";
import type { Topology } from "./entities.generated";
import type { Savepoint } from "./savepoints";

const topology = { name: "hashtags", version: 3 } as Topology;
const NOW = 1_700_000_000;
const found: Continuation = {
  possible: true, refusal: "", problems: [], checkpoint: 1200, completed_at: new Date((NOW - 180) * 1000).toISOString(),
  size_bytes: 12_000_000, committed_epoch: 1200, added: [], removed: [], divided: [], changed: [],
};

const deployment = (at: Topology, goesOn: Continuation | undefined, savepoints: Savepoint[], now: number, fits = new Map<string, Continuation>()) =>
  deploymentOf(at, goesOn, savepoints, fits, now);

describe("deploying", () => {
  it("asks nothing of a topology that never ran", () => {
    const action = deployment(topology, undefined, [], NOW);
    expect(action.choice).toBeUndefined();
    expect(action.consequences).toEqual([]);
  });

  it("goes on from the checkpoint unless the user chooses otherwise", () => {
    const action = deployment(topology, found, [], NOW);
    expect(action.choice?.options.map((option) => option.value)).toEqual(["checkpoint", "beginning"]);
    expect(action.choice?.options[0]?.label).toContain("epoch 1,200");
    expect(action.choice?.options[0]?.label).toContain("3 min");
    expect(action.consequences).toEqual([]);
  });

  it("says what is not as it was", () => {
    const told = deployment(topology, { ...found, committed_epoch: 1203, added: ["N[0]"], removed: ["O[0]", "O[1]"], divided: ["W"], changed: ["N"] }, [], NOW).consequences;
    expect(told.map((one) => one.title)).toEqual([
      "From the checkpoint: 3 epochs are computed again, with the same rows",
      "From the checkpoint: these operators give other rows from then on",
      "From the checkpoint: 1 partition begins without state",
      "From the checkpoint: 2 partitions are gone, with their state",
      "From the checkpoint: the state of these operators is divided anew among their partitions, by key",
    ]);
  });

  it("gives the reasons where it cannot go on", () => {
    const problems = [{ path: "operators[1].params", message: "the state does not fit" }];
    const refused = deployment(topology, { ...found, possible: false, refusal: "version 3 cannot", problems }, [], NOW);
    expect(refused.choice).toBeUndefined();
    expect(refused.consequences[0]?.items).toEqual(["operators[1].params: the state does not fit"]);
    const nothing = deployment(topology, { ...found, possible: false, refusal: "no checkpoint is stored" }, [], NOW);
    expect(nothing.consequences[0]?.items).toEqual(["no checkpoint is stored"]);
  });

  it("offers the newest savepoints of the topology", () => {
    const one = (name: string, more: Partial<Savepoint> = {}): Savepoint => ({
      name, topology: "hashtags", version: 2, epoch: 900, state: "complete", size_bytes: 11_000_000, cause: "", imported: false,
      requested_by: "ada", reason: "", created_at: "", ended_at: new Date((NOW - 3600) * 1000).toISOString(), ...more,
    });
    const saved = [one("making", { state: "making" }), one("other", { topology: "trending" }), ...["a", "b", "c", "d", "e", "f"].map((name) => one(name))];
    const options = deployment(topology, found, saved, NOW).choice?.options ?? [];
    expect(options.map((option) => option.value)).toEqual(["checkpoint", ...["a", "b", "c", "d", "e"].map((name) => `savepoint ${name}`), "beginning"]);
    expect(options[1]?.body).toEqual({ start: "savepoint", savepoint: "a" });
    expect(options[1]?.label).toContain("epoch 900");
    const misfit = { ...found, possible: false, problems: [{ path: "operators[1].kind", message: "it is that of a latest" }] };
    const some = deployment(topology, found, [one("a"), one("b")], NOW, new Map([["a", misfit], ["b", found]]));
    expect(some.choice?.options.map((option) => option.value)).toEqual(["checkpoint", "savepoint b", "beginning"]);
    expect(some.consequences).toEqual([{ title: "It cannot begin with savepoint a", items: ["operators[1].kind: it is that of a latest"], tone: "warn" }]);
    const refused = deployment(topology, { ...found, possible: false, refusal: "no checkpoint is stored" }, [one("a")], NOW).choice?.options ?? [];
    expect(refused.map((option) => option.value)).toEqual(["beginning", "savepoint a"]);
  });
});
