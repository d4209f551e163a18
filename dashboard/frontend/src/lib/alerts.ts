// What the alerts page and the bell show, worked out of alerts, rules and silences. Pure.

import type { Alert, AlertMetric, Rule, Silence } from "./entities.generated";
import { DASH, relative, seconds, spell } from "./format";
import type { AlertLook } from "./status";

type Unit = "times" | "seconds" | "share" | "intervals";

/** Titles and units as domain/alerting/metrics.py has them. */
export const METRICS: Record<AlertMetric, { title: string; unit: Unit; byPriority: boolean }> = {
  query_relative_latency: { title: "Relative latency of a query", unit: "times", byPriority: true },
  query_latency: { title: "Latency of a query", unit: "seconds", byPriority: true },
  availability: { title: "Share of queries available", unit: "share", byPriority: true },
  lag: { title: "Lag", unit: "seconds", byPriority: false },
  checkpoint_age: { title: "Age of the newest checkpoint", unit: "seconds", byPriority: false },
  checkpoint_intervals: { title: "Age of the newest checkpoint in checkpoint intervals", unit: "intervals", byPriority: false },
  fidelity: { title: "Fidelity now", unit: "share", byPriority: false },
  fidelity_rack_loss: { title: "Fidelity after the worst loss of a rack", unit: "share", byPriority: false },
};
export const UNITS: Record<Unit, string> = { times: "times the usual latency", seconds: "seconds", share: "share, 1 = all", intervals: "intervals" };

export function valueWords(metric: AlertMetric, value: number | null): string {
  if (value === null) return DASH;
  switch (METRICS[metric]?.unit) {
    case "times": return relative(value);
    case "seconds": return value < 10 ? `${Number(value.toPrecision(3))} s` : value < 100 ? `${Math.round(value)} s` : spell(Math.round(value));
    case "share": return `${Number((100 * (value < 1 ? Math.min(value, 0.999) : value)).toPrecision(3))} %`;
    default: return String(Number(value.toPrecision(3)));
  }
}

/** `above 30 s` */
export const thresholdWords = (row: { metric: AlertMetric; comparison: string; threshold: number }): string => `${row.comparison} ${valueWords(row.metric, row.threshold)}`;

/** `Lag above 30 s for 1 min` */
export const conditionWords = (rule: Rule): string => `${METRICS[rule.metric]?.title ?? rule.metric} ${thresholdWords(rule)}${rule.held ? ` for ${spell(rule.held)}` : ""}`;

/** Empty if it judges everything. */
export const scopeWords = (rule: Rule): string =>
  [...(rule.topology ? [`${rule.topology} only`] : []), ...(rule.priority > 1 ? [`queries of priority ${rule.priority} and above`] : [])].join(", ");

export const lasts = (silence: Silence, now: number): boolean => silence.ended_at === null && (seconds(silence.until) ?? 0) > now;

/** Only these may become links: anything else is a text. */
export const isAddress = (runbook: string): boolean => /^https?:\/\/\S+$/.test(runbook);

export const look = (alert: Alert): AlertLook => (alert.state === "firing" ? alert.severity : alert.state);

export interface Board {
  firing: Alert[];
  silenced: Alert[];
  waiting: Alert[];
  missing: Alert[];
  ended: Alert[];
}

/** All alerts by what they ask of an operator, the most urgent first. */
export function boardOf(alerts: Iterable<Alert>): Board {
  const board: Board = { firing: [], silenced: [], waiting: [], missing: [], ended: [] };
  for (const alert of alerts) {
    if (alert.state === "resolved") board.ended.push(alert);
    else if (alert.state === "pending") board.waiting.push(alert);
    else if (alert.state === "missing") board.missing.push(alert);
    else if (alert.silence !== null) board.silenced.push(alert);
    else board.firing.push(alert);
  }
  const newest = (at: (row: Alert) => string) => (a: Alert, b: Alert): number => (at(a) < at(b) ? 1 : at(a) > at(b) ? -1 : b.id - a.id);
  for (const rows of [board.firing, board.silenced, board.waiting, board.missing]) rows.sort((a, b) => Number(b.severity === "critical") - Number(a.severity === "critical") || newest((row) => row.since)(a, b));
  board.ended.sort(newest((row) => row.resolved_at ?? ""));
  return board;
}
