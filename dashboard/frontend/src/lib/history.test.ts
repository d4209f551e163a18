import { expect, test } from "vitest";
import type { NumberedEvent } from "./entities.generated";
import { History, POINTS } from "./history";

const metrics = (sequence: number, latency: number | null): NumberedEvent => ({
  sequence, at: "2026-01-01T00:00:00Z", kind: "topology.metrics", topology: "t", node: "", incident: null, actor: "system", reason: "",
  changes: [
    { entity: "query", key: "t/O[0]", fields: { latency } },
    { entity: "topology", key: "t", fields: { input_rate: 10 * sequence } },
  ],
} as unknown as NumberedEvent);

test("events go on where the server's series end", () => {
  const history = new History();
  history.begin({ sequence: 5, latencies: { "t/O[0]": [1, 2] }, rates: { t: [40, 50] } });
  history.record([metrics(5, 9), metrics(6, 3), metrics(7, null)]);
  expect(history.get("t/O[0]")).toEqual([1, 2, 3]);
  expect(history.get("rate:t")).toEqual([40, 50, 60, 70]);
  expect(history.get("t/none")).toEqual([]);
});

test("no more is kept than is drawn", () => {
  const history = new History();
  history.begin({ sequence: 1, latencies: { "t/O[0]": Array.from({ length: POINTS }, (_, n) => n) }, rates: {} });
  history.record([metrics(2, 1000)]);
  expect(history.get("t/O[0]")).toHaveLength(POINTS);
  expect(history.get("t/O[0]").at(-1)).toBe(1000);
});
