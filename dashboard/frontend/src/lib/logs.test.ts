import { describe, expect, it } from "vitest";
import { bodyOf, extentText, logQuery, shownLines, type LogLine, type OperatorLog } from "./logs";

const line = (source: string, at: string | null, text: string): LogLine => ({ source, at, level: "info", text });

describe("the question", () => {
  it("leaves out what the server would refuse", () => {
    expect(logQuery({ text: "", level: "", node: "" }, [])).toBe("limit=500");
    expect(logQuery({ text: "a b", level: "error", node: "node-1" }, ["node-1"])).toBe("limit=500&text=a+b&level=error&node=node-1");
    expect(logQuery({ text: "x".repeat(300), level: "loud", node: "node-9" }, ["node-1"])).toBe(`limit=500&text=${"x".repeat(200)}`);
  });
});

describe("lines", () => {
  it("lose the time and level that stand in columns of their own", () => {
    expect(bodyOf("timestamp='2026-11-26T07:43:19.031693Z' level='info' logger='x' event='state'")).toBe("logger='x' event='state'");
    expect(bodyOf("2026-11-26T07:44:57.236 ERROR Worker: RECEIVED SIGNAL TERM")).toBe("Worker: RECEIVED SIGNAL TERM");
    expect(bodyOf("26/11/26 07:43:17 WARN Utils: Your hostname")).toBe("Utils: Your hostname");
    expect(bodyOf("2026-11-26 07:43:11 [info     ] agent starts")).toBe("agent starts");
    expect(bodyOf("Traceback (most recent call last):")).toBe("Traceback (most recent call last):");
  });

  it("say time and source once", () => {
    const at = "2026-11-26T07:43:19.000Z";
    const shown = shownLines([line("driver", at, "a"), line("driver", at, "b"), line("node-1 agent", at, "c"), line("node-1 agent", null, "d")], Date.parse(at) / 1000);
    expect(shown.map((one) => one.source)).toEqual(["driver", "", "node-1 agent", ""]);
    expect(shown.map((one) => one.time !== "")).toEqual([true, false, true, false]);
  });

  it("say a level that is serious in a word, a traceback once", () => {
    const lines: LogLine[] = [{ ...line("driver", null, "26/11/26 07:43:17 ERROR x"), level: "error" }, { ...line("driver", null, "Traceback"), level: "error" }, line("driver", null, "26/11/26 07:43:17 INFO x")];
    expect(shownLines(lines, 0).map((one) => [one.word, one.body])).toEqual([["error", "x"], ["", "Traceback"], ["", "x"]]);
  });

  it("have keys of their own that stay when lines are added", () => {
    const same = [line("driver", null, "x"), line("driver", null, "x")];
    const keys = shownLines(same, 0).map((one) => one.key);
    expect(new Set(keys).size).toBe(2);
    expect(shownLines([...same, line("driver", null, "y")], 0).slice(0, 2).map((one) => one.key)).toEqual(keys);
  });
});

describe("what was read", () => {
  const log: OperatorLog = { topology: "t", operator: "O", nodes: [], sources: [], unread: [], matching: 0, lines: [] };
  it("is said", () => {
    expect(extentText(log)).toBe("no log read");
    expect(extentText({ ...log, sources: [{ name: "driver", whole: true }, { name: "a", whole: false }] })).toBe("2 logs read (only the end of 1)");
    expect(extentText({ ...log, sources: [{ name: "driver", whole: false }], matching: 9, lines: [line("driver", null, "x")] })).toBe("1 log read (only the end); the last 1 of 9 lines");
  });
});
