import { describe, expect, it } from "vitest";
import { complete, operatorNames } from "./completion";

const TEXT = `name: counts
operators:
  - name: Source
    kind: source
    params: {rate: 10}
  - name: Windows
    kind: sliding_window
    inputs: [{from: Source}]
    params:
      size_s: 10
    output: true
`;
/** The options at `|` of a text. */
function at(marked: string): string[] {
  const position = marked.indexOf("|");
  return complete(marked.replace("|", ""), position)?.options.map((one) => one.trim().replace(/:$/, "")) ?? [];
}

describe("what can come next in a specification", () => {
  it("knows the operators", () => expect(operatorNames(TEXT)).toEqual(["Source", "Windows"]));

  it("is a field of the topology at its edge", () => {
    expect(at("name: x\n|")).toContain("checkpoint_interval");
    expect(at("name: x\nep|")).toContain("epoch_interval");
    expect(at("|")).toContain("operators");
  });

  it("is a field of an operator in its item", () => {
    expect(at("operators:\n  - |")).toContain("parallelism");
    expect(at("operators:\n  - name: A\n    |")).toContain("inputs");
    expect(at(`${TEXT}    |`)).toContain("priority");
  });

  it("is a parameter of its kind", () => {
    expect(at("operators:\n  - name: A\n    kind: sliding_window\n    params:\n      |")).toEqual(["size_s", "slide_s"]);
    expect(at("operators:\n  - name: A\n    kind: top_k\n    params: {|")).toEqual(["k", "add_up"]);
    expect(at("operators:\n  - name: A\n    params: {|}\n    kind: filter\n")).toEqual(["column", "comparison", "value"]);
    expect(at("operators:\n  - name: A\n    params: {|\n  - name: B\n    kind: filter\n")).toEqual([]);
  });

  it("is a kind, a partitioning, a flag or an operator", () => {
    expect(at("operators:\n  - name: A\n    kind: |")).toContain("windowed_join");
    expect(at("operators:\n  - name: A\n    kind: sl|")).toContain("sliding_window");
    expect(at(TEXT.replace("from: Source", "from: |"))).toEqual(["Source", "Windows"]);
    expect(at("operators:\n  - inputs: [{from: A, partitioning: |")).toEqual(["one_to_one", "split", "merge", "full"]);
    expect(at("operators:\n  - name: A\n    output: |")).toEqual(["true", "false"]);
    expect(at("operators:\n  - name: A\n    inputs: [{from: A, |")).toContain("feedback");
    expect(at("sink:\n  |")).toContain("keep_days");
    expect(at("guarantee: |")).toEqual(["exact", "bounded"]);
    expect(at("key_saving:\n  |")).toContain("every");
  });

  it("is nothing in a text or a comment", () => {
    expect(at("description: what | is")).toEqual([]);
    expect(at("# na|")).toEqual([]);
    expect(at("name: |")).toEqual([]);
  });

  it("replaces the word before the cursor", () => expect(complete("name: x\nep", 10)?.from).toBe(8));
});
