import { describe, expect, it } from "vitest";
import type { Topology } from "./entities.generated";
import { FIELDS, hasEffect } from "./policy";

const topology = (guarantee: Topology["guarantee"]): Topology => ({ name: "counts", guarantee }) as Topology;
const without = (guarantee: Topology["guarantee"]): string[] => FIELDS.filter((field) => !hasEffect(field, topology(guarantee))).map((field) => field.name);

describe("a field of the policy", () => {
  it("has an effect where the guarantee is exact", () => {
    expect(without("exact")).toEqual([]);
  });
  it("has none with a bounded guarantee if it is of replicas or tentative output", () => {
    const named = FIELDS.map((field) => field.name).filter((name) => /^(replication|tentative)_/.test(name));
    expect(named.length).toBeGreaterThan(5);
    expect(without("bounded")).toEqual(named);
  });
});
