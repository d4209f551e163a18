// Results of a query: its newest rows and windows. Pure.

import { clock, count, DASH, seconds } from "./format";

export interface ResultColumn {
  name: string;
  type: "text" | "number" | "boolean" | "time";
  masked: boolean;
}

export interface ResultWindow {
  start: string | null;
  end: string;
  rows: number;
  total: number | null;
  key: string | null;
  count: number | null;
}

export type Cell = string | number | boolean | null;

export interface Results {
  deployed: number;
  epoch: number;
  removed: number;
  columns: ResultColumn[];
  rows: Record<string, Cell>[];
  next: string;
  windows: ResultWindow[];
}

/** A value as the table shows it. */
export function cellText(value: Cell | undefined, type: ResultColumn["type"], now: number): string {
  if (value === null || value === undefined) return DASH;
  // Rows of the same second differ in its parts.
  if (type === "time" && typeof value === "string") return seconds(value) === null ? value : `${clock(value, now)}${/\.\d*[1-9]/.exec(value)?.[0] ?? ""}`;
  if (typeof value === "number") return Number.isInteger(value) ? count(value) : String(value);
  return String(value);
}

/** Windows as series of a chart, oldest first: the sum of counts (or the number of rows), and the largest count. */
export function windowSeries(windows: readonly ResultWindow[]): { times: number[]; totals: number[]; largest: (number | null)[] } {
  const ordered = windows.map((window) => ({ at: seconds(window.end) ?? 0, window })).sort((a, b) => a.at - b.at);
  // Windows of different lengths may end at the same time: the chart has one place for each time.
  const merged = new Map<number, { total: number; largest: number | null }>();
  for (const { at, window } of ordered) {
    const before = merged.get(at);
    merged.set(at, { total: (before?.total ?? 0) + Number(window.total ?? window.rows), largest: window.count === null ? (before?.largest ?? null) : Math.max(before?.largest ?? -Infinity, Number(window.count)) });
  }
  return { times: [...merged.keys()], totals: [...merged.values()].map((one) => one.total), largest: [...merged.values()].map((one) => one.largest) };
}
