// A what-if question and its address: everything that is asked stands in the query string, so that a link asks it again.

import type { Node } from "./entities.generated";
import { byName } from "./format";

export type Arrivals = { kind: "provider" } | { kind: "uniform"; low: number; high: number } | { kind: "at"; seconds: number[] };

/** Nodes and whole racks, by name. */
export interface Choice {
  nodes: string[];
  racks: string[];
}

/** Which replicas take over: those that run, none, or those of a plan with this budget. */
export type AskedReplicas = "running" | "none" | number;

export interface Question extends Choice {
  arrivals: Arrivals;
  seed: number;
  algorithms: string[];
  rollback: "" | "ancestors" | "global";
  replicas: AskedReplicas;
}

export interface CurvePoint {
  at: number;
  available: number;
  total: number;
  weighted: number;
  /** Queries that are not available and give tentative output, and their share of the summed priorities. */
  tentative: number;
  weighted_tentative: number;
}

export interface PredictedWave {
  number: number;
  at: number;
  restored_at: number | null;
  rollback: boolean;
  nodes: string[];
  partitions: number;
  queries: string[];
  cost: number;
  capacity: number;
}

interface Course {
  curve: CurvePoint[];
  first: number | null;
  half: number | null;
  all: number | null;
  area: number;
}

export interface Predicted extends Course {
  algorithm: string;
  ended: boolean;
  waves: PredictedWave[];
  share_of_best: number | null;
}

export type Outcome = "goes_on" | "tentative" | "lacks_input" | "stops";

/** What the failure leaves of a topology at once, before anything is restored. */
export interface FailureOutlook {
  topology: string;
  fidelity: number;
  replicas: number;
  unplaced: string[];
  taken_over: { partition: string; node: string }[];
  queries: { query: string; outcome: Outcome; fidelity: number }[];
}

export interface Prediction {
  failed_nodes: string[];
  topologies: string[];
  queries: number;
  failed_queries: string[];
  replicas: AskedReplicas;
  outlooks: FailureOutlook[];
  horizon: number;
  arrivals: { at: number; capacity: number; rack: string }[];
  algorithms: Predicted[];
  best: (Course & { placed: boolean; proven: boolean }) | null;
}

const list = (text: string | null): string[] => [...new Set((text ?? "").split(",").map((one) => one.trim()).filter(Boolean))];

/** Reads `30, 60 90`; null where something is not a number of seconds. */
export function readSeconds(text: string): number[] | null {
  const parts = text.split(/[\s,;]+/).filter(Boolean);
  const found = parts.map(Number);
  return found.some((one) => !Number.isFinite(one) || one < 0) ? null : found;
}

function readArrivals(text: string | null): Arrivals {
  const uniform = /^uniform:([\d.]+):([\d.]+)$/.exec(text ?? "");
  if (uniform) return { kind: "uniform", low: Number(uniform[1]), high: Number(uniform[2]) };
  if (text?.startsWith("at:")) return { kind: "at", seconds: readSeconds(text.slice(3)) ?? [] };
  return { kind: "provider" };
}

function writeArrivals(arrivals: Arrivals): string | null {
  if (arrivals.kind === "uniform") return `uniform:${arrivals.low}:${arrivals.high}`;
  return arrivals.kind === "at" ? `at:${arrivals.seconds.join(",")}` : null;
}

/** Budgets are whole numbers of partitions up to this one. */
export const MOST_BUDGET = 20_000;

export const budgetFits = (budget: number): boolean => Number.isInteger(budget) && budget >= 0 && budget <= MOST_BUDGET;

function readReplicas(text: string | null): AskedReplicas {
  if (text === "none") return text;
  return /^\d{1,5}$/.test(text ?? "") && budgetFits(Number(text)) ? Number(text) : "running";
}

export const choiceFrom = (query: URLSearchParams): Choice => ({ nodes: list(query.get("nodes")), racks: list(query.get("racks")) });

export const choiceAddress = (choice: Choice): { nodes: string | null; racks: string | null } => ({
  nodes: [...choice.nodes].sort(byName).join(",") || null,
  racks: [...choice.racks].sort(byName).join(",") || null,
});

export function questionFrom(query: URLSearchParams, algorithms: readonly string[]): Question {
  const rollback = query.get("rollback");
  const seed = Number(query.get("seed"));
  const chosen = list(query.get("planners"));
  return {
    ...choiceFrom(query),
    arrivals: readArrivals(query.get("arrivals")),
    seed: Number.isInteger(seed) && seed > 0 ? seed : 0,
    algorithms: chosen.length ? chosen : [...algorithms],
    rollback: rollback === "ancestors" || rollback === "global" ? rollback : "",
    replicas: readReplicas(query.get("replicas")),
  };
}

/** Changes of the query string that make it say `question`. What is as always is left out. */
export function addressOf(question: Question, algorithms: readonly string[]): Record<string, string | null> {
  const usual = question.algorithms.length === algorithms.length && question.algorithms.every((one) => algorithms.includes(one));
  return {
    ...choiceAddress(question),
    arrivals: writeArrivals(question.arrivals),
    seed: question.seed ? String(question.seed) : null,
    planners: usual ? null : question.algorithms.join(","),
    rollback: question.rollback || null,
    replicas: question.replicas === "running" ? null : String(question.replicas),
  };
}

/** As the server wants it. */
export function bodyOf(question: Question): Record<string, unknown> {
  const { arrivals } = question;
  return {
    nodes: question.nodes,
    racks: question.racks,
    algorithms: question.algorithms,
    ...(question.seed ? { seed: question.seed } : {}),
    ...(question.rollback ? { rollback: question.rollback } : {}),
    ...(question.replicas === "running" ? {} : { replicas: question.replicas }),
    ...(arrivals.kind === "provider" ? {} : { arrivals: arrivals.kind === "at" ? arrivals.seconds : `uniform:${arrivals.low}:${arrivals.high}` }),
  };
}

/** A query of the answer; fidelity: the estimated share of its output that is not lost. */
export interface QueryFate {
  topology: string;
  query: string;
  outcome: Outcome;
  fidelity: number;
}

export const OUTCOMES: Record<Outcome, { word: string; tone: "good" | "warn" | "bad"; rank: number }> = {
  stops: { word: "stops", tone: "bad", rank: 0 },
  lacks_input: { word: "lacks a part of its input", tone: "warn", rank: 1 },
  tentative: { word: "goes on with a part of its input", tone: "warn", rank: 2 },
  goes_on: { word: "goes on", tone: "good", rank: 3 },
};

export const fates = (outlooks: readonly FailureOutlook[]): QueryFate[] => outlooks.flatMap(({ topology, queries }) => queries.map((one) => ({ topology, ...one })));

/** Names of the nodes that would be lost, each once. */
export function victims(choice: Choice, nodes: readonly Node[]): string[] {
  const hit = nodes.filter((node) => choice.nodes.includes(node.name) || choice.racks.includes(node.rack));
  return hit.map((node) => node.name).sort(byName);
}

/** What is available, by priority, and what gives tentative output meanwhile. */
export const withTentative = (point: CurvePoint): number => point.weighted + point.weighted_tentative;

/** Step curves over common moments: one array of values for each curve, null before its beginning. */
export function align(curves: readonly (readonly CurvePoint[])[], horizon: number, value = (point: CurvePoint): number => point.weighted): { times: number[]; values: (number | null)[][] } {
  const moments = [...new Set([...curves.flatMap((curve) => curve.map((point) => point.at)), horizon])].filter((at) => at <= horizon).sort((a, b) => a - b);
  const values = curves.map((curve) => {
    let next = 0;
    let level: number | null = null;
    return moments.map((at) => {
      while (next < curve.length && curve[next]!.at <= at) level = value(curve[next++]!);
      return level;
    });
  });
  return { times: moments, values };
}
