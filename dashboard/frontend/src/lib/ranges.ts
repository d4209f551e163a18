// The time that charts show: the last so many minutes or days, or from one time to another. Kept in the address. Pure.

export interface Span {
  from: number;
  to: number;
}

/** Begins and ends at these seconds since 1970, or reaches back so many seconds from now. */
export type Range = { last: number } | Span;

const MINUTE = 60, HOUR = 3_600, DAY = 86_400;

/** Name in the address, seconds, words. */
export const RANGES: readonly (readonly [string, number, string])[] = [
  ["15m", 15 * MINUTE, "Last 15 minutes"],
  ["1h", HOUR, "Last hour"],
  ["6h", 6 * HOUR, "Last 6 hours"],
  ["24h", DAY, "Last 24 hours"],
  ["7d", 7 * DAY, "Last 7 days"],
];
const USUAL = 15 * MINUTE;
/** Seconds: what is shorter is a click, and no range. */
const SHORTEST = 5;

/** What the address says; the last 15 minutes where it says nothing that can be read. */
export function rangeOf(text: string | null): Range {
  const named = RANGES.find(([name]) => name === text);
  if (named) return { last: named[1] };
  const found = /^(\d{1,11})-(\d{1,11})$/.exec(text ?? "");
  if (!found) return { last: USUAL };
  const [from, to] = [Number(found[1]), Number(found[2])];
  return to - from >= SHORTEST ? { from, to } : { last: USUAL };
}

/** As the address says it; null for what is shown without it. */
export function rangeText(range: Range): string | null {
  if ("last" in range) return range.last === USUAL ? null : (RANGES.find(([, seconds]) => seconds === range.last)?.[0] ?? null);
  return `${Math.floor(range.from)}-${Math.ceil(range.to)}`;
}

export function spanOf(range: Range, now: number): Span {
  return "last" in range ? { from: now - range.last, to: now } : range;
}

/** A part of a chart that was dragged over; null where that was only a click. */
export function dragged(one: number, other: number): Span | null {
  const [from, to] = [Math.floor(Math.min(one, other)), Math.ceil(Math.max(one, other))];
  return Math.abs(one - other) < SHORTEST ? null : { from, to };
}

/** Seconds after which a chart that reaches to now is read again: about one point of it, at least ten seconds. */
export function again(range: Range): number | null {
  return "last" in range ? Math.min(600, Math.max(10, range.last / 90)) : null;
}

/** The value of `<input type="datetime-local">`, in the reader's time zone; and back, NaN where it is no time. */
export function localText(at: number): string {
  const date = new Date(at * 1000);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
export const localTime = (text: string): number => new Date(text).getTime() / 1000;
