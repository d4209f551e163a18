// One operator as its panel shows it. Pure.

import type { Problem } from "./entities.generated";
import type { Cell, ResultColumn } from "./results";

export type ColumnType = "text" | "number" | "boolean" | "time" | "";

export interface OperatorColumn {
  name: string;
  type: ColumnType;
  masked: boolean;
}

export interface OperatorColumns {
  columns: OperatorColumn[];
  origin: "kind" | "inputs" | "rows" | "unknown";
  note: string;
}

export interface OperatorInput {
  from: string;
  partitioning: string;
  key: string;
  feedback: boolean;
  gives: OperatorColumns;
}

export interface OperatorDescription {
  topology: string;
  version: number;
  name: string;
  kind: string;
  description: string;
  parallelism: number;
  output: boolean;
  params: { name: string; value: unknown }[];
  sql: string;
  gives: OperatorColumns;
  inputs: OperatorInput[];
}

/** A parameter's value in one line: seconds of `size_s` and the like as they are written in a specification. */
export function valueText(value: unknown): string {
  if (value === null || value === undefined) return "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string") return value;
  if (Array.isArray(value) && value.every((one) => typeof one !== "object" || one === null)) return value.map((one) => String(one)).join(", ");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

const INSTANTS = ["ts", "window_start", "window_end"];

/** A value of a row inside the engine, where these columns are microseconds since 1970. */
export function rowValueText(name: string, value: unknown): string {
  const instant = INSTANTS.includes(name) && typeof value === "number" && Math.abs(value) < 8e18 ? new Date(value / 1000) : null;
  return instant && !Number.isNaN(instant.getTime()) ? instant.toISOString() : valueText(value);
}

/** The type of a column as a word. */
export const typeText = (column: OperatorColumn): string => `${column.type || "not known"}${column.masked ? ", masked" : ""}`;

/** A stream in words: `full, by key`. */
export function streamText(input: OperatorInput): string {
  return [input.partitioning.replaceAll("_", " "), input.key && `by ${input.key}`, input.feedback && "feedback"].filter(Boolean).join(", ");
}

/** A problem of an operator as the server tells it to those who may see data. */
export interface OperatorProblem extends Omit<Problem, "topology"> {
  id: number;
  /** The row that the operator fails on, masked. */
  row: Record<string, string | number | boolean | null> | null;
  /** Sentences about rows of a source that were not used. */
  rows: string[];
  known: string;
}

const PLACE = /^(?:replica of )?([A-Za-z][A-Za-z0-9_]*)(?:\[\d+\])?(?:$|:)/;

/** Whether a problem is one of this operator: its place names it, one of its partitions, or a replica of one. */
export function concerns(problem: Pick<Problem, "where">, operator: string): boolean {
  return PLACE.exec(problem.where)?.[1] === operator;
}

/** The problems of an operator: those whose place names it, and those that the server says are of it (of the file that it reads). */
export function problemsOfOperator(problems: readonly [string, Problem][], operator: string, told: readonly OperatorProblem[]): [string, Problem][] {
  const also = new Set(told.map((one) => String(one.id)));
  return problems.filter(([key, problem]) => concerns(problem, operator) || also.has(key));
}

/** The last rows of a partition, the last one first. */
export interface OperatorRows {
  topology: string;
  partition: string;
  origin: "results" | "sample" | "none";
  note: string;
  epoch: number;
  at: string | null;
  columns: ResultColumn[];
  rows: Record<string, Cell>[];
}

/** The columns of an operator: those that are known from its specification, else those that its rows have. */
export function columnsShown(gives: OperatorColumns, rows: OperatorRows | null): OperatorColumns {
  if (gives.origin !== "unknown" || !rows?.columns.length) return gives;
  return { columns: rows.columns, origin: "rows", note: "As its newest rows have them." };
}

/** Which partition an address names, of so many. */
export function partitionOf(word: string | null, parallelism: number): number {
  const number = /^\d{1,5}$/.test(word ?? "") ? Number(word) : 0;
  return number < parallelism ? number : 0;
}

export type Panel = "partitions" | "charts" | "configuration" | "rows" | "errors" | "log";
const PANELS: readonly Panel[] = ["partitions", "charts", "configuration", "rows", "errors", "log"];
/** Tabs with data, which may be shown to operators and administrators only. */
const GUARDED: readonly Panel[] = ["rows", "log"];

/** Which tab of the panel an address names. */
export const panelOf = (word: string | null): Panel => PANELS.find((one) => one === word) ?? "partitions";

export const isGuarded = (panel: Panel): boolean => GUARDED.includes(panel);

/** Whether a tab of the panel needs half of the page: long lines and tables. */
export const isWide = (word: string | null): boolean => isGuarded(panelOf(word));
