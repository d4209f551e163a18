import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { draftKeep, draftOf, lineChanges, outdatedWords, problemLine, problemPlace } from "./editing";

describe("a specification that is edited", () => {
  it("has its problems on lines of the text", () => {
    expect(problemLine({ path: "operators[1].kind", message: "x", line: 7 }, 20)).toBe(7);
    expect(problemLine({ path: "line 3, column 5", message: "x" }, 20)).toBe(3);
    expect(problemLine({ path: "line 30, column 5", message: "x" }, 20)).toBe(20);
    expect(problemLine({ path: "name", message: "x", line: null }, 20)).toBe(1);
  });

  it("says where they are", () => {
    expect(problemPlace({ path: "operators[1].kind", message: "x", line: 7 })).toBe("line 7, operators[1].kind");
    expect(problemPlace({ path: "line 3, column 5", message: "x" })).toBe("line 3, column 5");
    expect(problemPlace({ path: "", message: "x" })).toBe("");
  });

  it("counts the lines that were changed", () => {
    expect(lineChanges("a\nb\nb\n", "a\nb\nc\n")).toEqual({ added: 1, removed: 1 });
    expect(lineChanges("a", "a")).toEqual({ added: 0, removed: 0 });
  });
});

describe("a draft", () => {
  const stored = new Map<string, string>();
  beforeEach(() => {
    stored.clear();
    vi.stubGlobal("sessionStorage", {
      getItem: (key: string) => stored.get(key) ?? null,
      setItem: (key: string, value: string) => void stored.set(key, value),
      removeItem: (key: string) => void stored.delete(key),
    });
  });
  afterEach(() => void vi.unstubAllGlobals());

  it("is found with the version it was made from, whichever is the newest one", () => {
    draftKeep("hashtags", { version: 1, text: "name: hashtags" });
    expect(draftOf("hashtags")).toEqual({ version: 1, text: "name: hashtags" });
    expect(draftOf("mentions")).toBeNull();
    draftKeep("hashtags", null);
    expect(draftOf("hashtags")).toBeNull();
  });

  it("is nothing where what is stored cannot be read", () => {
    stored.set("resurge.draft.hashtags", "{");
    expect(draftOf("hashtags")).toBeNull();
  });

  it("says that another version came between", () => {
    expect(outdatedWords(3, 3)).toBe("");
    expect(outdatedWords(1, 2)).toContain("made from version 1");
  });
});
