import { expect, test } from "vitest";
import type { Health } from "./entities.generated";
import { isOpen, isPast, look, worstQuery } from "./health";

const health = (changes: Partial<Health>): { health: Health } => ({ health: { state: "running", word: "Running", tone: "good", value: null, limit: null, note: "", since: null, ...changes } });

test("the server's word is shown as it is", () => {
  expect(look(health({ state: "catching_up", word: "Restored, catching up", tone: "busy" }))).toMatchObject({ label: "Restored, catching up", tone: "busy", shape: "half" });
  expect(look(health({ state: "aborted", word: "Aborted", tone: "idle" })).shape).toBe("square");
});

test("an incident that catches up is open, and one that was aborted is not", () => {
  expect(isOpen(health({ state: "catching_up" }))).toBe(true);
  expect(isOpen(health({ state: "incomplete" }))).toBe(false);
  expect(isPast(health({ state: "replaced" }))).toBe(true);
});

test("the worst query is the one whose judged number is highest", () => {
  const queries = [health({ value: 1.1 }), health({ value: 2.67 }), health({ value: null })];
  expect(worstQuery(queries)).toBe(queries[1]);
  expect(worstQuery([health({})])).toBeNull();
});
