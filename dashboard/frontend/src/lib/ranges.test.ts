import { describe, expect, it } from "vitest";
import { again, dragged, localText, localTime, RANGES, rangeOf, rangeText, spanOf } from "./ranges";

describe("the time that charts show", () => {
  it("is read from the address and written there", () => {
    for (const [name, seconds] of RANGES) {
      expect(rangeOf(name)).toEqual({ last: seconds });
      expect(rangeOf(rangeText({ last: seconds }))).toEqual({ last: seconds });
    }
    expect(rangeOf("1000-2000")).toEqual({ from: 1000, to: 2000 });
    expect(rangeText({ from: 1000.7, to: 1999.2 })).toBe("1000-2000");
    expect(rangeText({ last: 900 })).toBeNull();
  });

  it("is the usual one where the address makes no sense", () => {
    for (const text of [null, "", "2000-1000", "1000-1001", "-5", "1h2", "1e3-2e3", "99999999999999-1"]) expect(rangeOf(text)).toEqual({ last: 900 });
  });

  it("moves with the clock unless it has an end", () => {
    expect(spanOf({ last: 900 }, 5000)).toEqual({ from: 4100, to: 5000 });
    expect(spanOf({ from: 1, to: 99 }, 5000)).toEqual({ from: 1, to: 99 });
    expect(again({ last: 900 })).toBe(10);
    expect(again({ last: 7 * 86_400 })).toBe(600);
    expect(again({ from: 1, to: 99 })).toBeNull();
  });

  it("is what was dragged over, in either direction", () => {
    expect(dragged(110.5, 100.2)).toEqual({ from: 100, to: 111 });
    expect(dragged(100, 102)).toBeNull();
  });

  it("can be typed in the reader's time zone", () => {
    expect(localTime(localText(1_770_000_000))).toBe(1_770_000_000);
    expect(localTime("")).toBeNaN();
  });
});
