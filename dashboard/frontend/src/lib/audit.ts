// The audit trail: its filters as an address and as a request, and what an entry changed.

import { humanise } from "./format";

export interface AuditEntry {
  id: number;
  at: string;
  actor: string;
  channel: string;
  action: string;
  target: string;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
  reason: string;
}

export interface AuditPage {
  count: number;
  results: AuditEntry[];
}

export interface AuditChoices {
  actors: string[];
  actions: string[];
  channels: string[];
}

export const PAGE = 50;
export const FILTERS = ["q", "actor", "action", "channel", "target", "since", "until"] as const;
export const SPANS: [string, string][] = [["1h", "Last hour"], ["24h", "Last 24 hours"], ["7d", "Last 7 days"], ["30d", "Last 30 days"]];
export const CHANNELS: Record<string, string> = { page: "Page", rest: "REST", admin: "Admin site", cli: "Command line", system: "System" };

const UNITS: Record<string, number> = { h: 3600, d: 86_400 };

/** A moment as it stands in an address: `24h` ago, or ISO 8601. Empty for what is neither. */
export function momentOf(text: string, now: number): string {
  const span = /^(\d{1,4})([hd])$/.exec(text);
  if (span) return new Date((now - Number(span[1]) * UNITS[span[2]!]!) * 1000).toISOString();
  const at = Date.parse(text);
  return Number.isNaN(at) ? "" : new Date(at).toISOString();
}

/** The request for what an address asks. `limit`: how many entries, from the first one of its page on. */
export function requestOf(query: URLSearchParams, now: number, limit = PAGE): string {
  const asked = new URLSearchParams();
  for (const name of FILTERS) {
    const value = query.get(name)?.trim();
    if (!value) continue;
    if (name === "since" || name === "until") {
      const moment = momentOf(value, now);
      if (moment) asked.set(name, moment);
    } else asked.set(name === "q" ? "search" : name, value);
  }
  if (query.get("order") === "at") asked.set("ordering", "at");
  asked.set("limit", String(limit));
  const page = pageOf(query);
  if (page > 1) asked.set("offset", String((page - 1) * PAGE));
  return `audit/?${asked}`;
}

export const pageOf = (query: URLSearchParams): number => Math.max(1, Math.floor(Number(query.get("page")) || 1));
export const filtered = (query: URLSearchParams): boolean => FILTERS.some((name) => query.get(name));

export interface Difference {
  path: string;
  before: unknown;
  after: unknown;
}

/** What differs between two values, leaf by leaf: `spec.operators[2].parallelism`. */
export function differences(before: unknown, after: unknown, path = ""): Difference[] {
  if (Object.is(before, after)) return [];
  const [a, b] = [children(before), children(after)];
  if (!a || !b || Array.isArray(before) !== Array.isArray(after)) {
    return JSON.stringify(before) === JSON.stringify(after) ? [] : [{ path, before, after }];
  }
  return [...new Set([...a.keys(), ...b.keys()])].flatMap((key) =>
    differences(a.get(key), b.get(key), Array.isArray(before) ? `${path}[${key}]` : path ? `${path}.${key}` : key));
}

function children(value: unknown): Map<string, unknown> | null {
  return value !== null && typeof value === "object" ? new Map(Object.entries(value)) : null;
}

/** What an entry changed; where only one side is known, its fields. */
export function changesOf(entry: Pick<AuditEntry, "before" | "after">): Difference[] {
  if (entry.before && entry.after) return differences(entry.before, entry.after);
  const known = entry.before ?? entry.after;
  if (!known) return [];
  return Object.entries(known).map(([path, value]) => ({ path, before: entry.before ? value : undefined, after: entry.after ? value : undefined }));
}

export function shortly(value: unknown, most = 42): string {
  if (value === undefined) return "";
  const text = value === null ? "none" : typeof value === "string" ? value : typeof value === "object" ? JSON.stringify(value) : String(value);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** `topology.policy` as words: Topology policy. */
export const actionWords = (action: string): string => humanise(action);

/** Where the target of an entry is shown, if it is shown anywhere. */
export function placeOf(entry: AuditEntry): string {
  const area = entry.action.split(".")[0];
  if (!entry.target) return "";
  if (area === "topology" || area === "query") return `/topologies/${encodeURIComponent(entry.target)}/`;
  if (area === "node" || area === "rack") return `/nodes/?q=${encodeURIComponent(entry.target)}`;
  if (area === "incident" && /^\d+$/.test(entry.target)) return `/incidents/${entry.target}/`;
  return "";
}
