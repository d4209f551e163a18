import { describe, expect, it } from "vitest";
import { boardOf, conditionWords, isAddress, lasts, look, scopeWords, valueWords } from "./alerts";
import type { Alert, Rule, Silence } from "./entities.generated";

let id = 0;
const alert = (fields: Partial<Alert>): Alert => ({
  id: ++id, rule: "lag-high", metric: "lag", comparison: "above", threshold: 30, severity: "warning", runbook: "", topology: "clicks", query: "",
  state: "firing", value: 45, since: "2026-01-01T00:00:00.000Z", fired_at: null, resolved_at: null, because: "", silence: null, subject: "clicks", text: "", ...fields,
});
const rule = (fields: Partial<Rule>): Rule => ({
  id: 1, name: "lag-high", metric: "lag", comparison: "above", threshold: 30, held: 60, calm: 30, missing: "show", severity: "warning", topology: "", priority: 1,
  enabled: true, runbook: "", created_by: "system", created_at: "", updated_at: "", ...fields,
});

describe("alerts", () => {
  it("are put where an operator looks for them, critical ones first", () => {
    const [quiet, late, grave, waits, gone, none, over] = [
      alert({ silence: 3 }), alert({ since: "2026-01-02T00:00:00.000Z" }), alert({ severity: "critical" }), alert({ state: "pending" }),
      alert({ state: "missing", value: null }), alert({ state: "resolved", resolved_at: "2026-01-01T01:00:00.000Z" }), alert({ state: "resolved", resolved_at: "2026-01-01T02:00:00.000Z" }),
    ] as const;
    expect(boardOf([quiet, late, grave, waits, gone, none, over])).toEqual({ firing: [grave, late], silenced: [quiet], waiting: [waits], missing: [gone], ended: [over, none] });
  });

  it("look like their severity while they fire", () => {
    expect([look(alert({ severity: "critical" })), look(alert({ state: "pending" })), look(alert({ state: "missing" }))]).toEqual(["critical", "pending", "missing"]);
  });

  it("have values in the unit of their metric, which say neither all nor nothing of less", () => {
    expect([valueWords("lag", 45.2), valueWords("query_latency", 0.2534), valueWords("query_relative_latency", 2.4), valueWords("availability", 0.9999), valueWords("availability", 1), valueWords("checkpoint_intervals", 3.25), valueWords("lag", null), valueWords("checkpoint_age", 300)])
      .toEqual(["45 s", "0.253 s", "2.40×", "99.9 %", "100 %", "3.25", "–", "5 min"]);
  });

  it("come of rules that are one sentence", () => {
    expect(conditionWords(rule({}))).toBe("Lag above 30 s for 1 min");
    expect(conditionWords(rule({ metric: "availability", comparison: "below", threshold: 1, held: 0 }))).toBe("Share of queries available below 100 %");
    expect([scopeWords(rule({})), scopeWords(rule({ topology: "clicks", priority: 5 }))]).toEqual(["", "clicks only, queries of priority 5 and above"]);
  });

  it("link only addresses of the web", () => {
    expect(["https://wiki.example.org/x", "http://a", "javascript:alert(1)", "see https://a", "https://a b"].map(isAddress)).toEqual([true, true, false, false, false]);
  });

  it("are silenced until a silence ends", () => {
    const silence: Silence = { id: 1, rule: "", topology: "clicks", until: "1970-01-01T00:01:00Z", author: "kim", reason: "x", created_at: "", ended_at: null, ended_by: "" };
    expect([lasts(silence, 59), lasts(silence, 60), lasts({ ...silence, ended_at: "1970-01-01T00:00:30Z" }, 40)]).toEqual([true, false, false]);
  });
});
