import { describe, expect, it } from "vitest";
import { lineChanges, problemLine, problemPlace } from "./editing";

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
