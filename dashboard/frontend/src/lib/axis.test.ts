import { expect, it } from "vitest";
import { behindAxis, besideAxis } from "./axis";
import { clock, dayHour, duration } from "./format";

const LETTER = 5.8; // of Inter at 11 px, measured in a browser: "33 min 20 s" has 59, "17:35:00" 46 pixels

it("an axis has room for its labels", () => {
  expect(besideAxis(null)).toBe(44);
  expect(besideAxis(["0 %", "100 %"])).toBe(44);
  for (const label of [2_000, 7_500, 300_000].map(duration)) expect(besideAxis(["0 ms", label])).toBeGreaterThan(label.length * LETTER + 5);
  for (const label of [clock(0, 0), dayHour(0)]) expect(behindAxis(label)).toBeGreaterThanOrEqual((label.length * LETTER) / 2);
});
