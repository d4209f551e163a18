// One operator as its panel shows it. Pure.

export type ColumnType = "text" | "number" | "boolean" | "time" | "";

export interface OperatorColumn {
  name: string;
  type: ColumnType;
  masked: boolean;
}

export interface OperatorColumns {
  columns: OperatorColumn[];
  origin: "kind" | "inputs" | "unknown";
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

/** The type of a column as a word. */
export const typeText = (column: OperatorColumn): string => `${column.type || "not known"}${column.masked ? ", masked" : ""}`;

/** A stream in words: `full, by key`. */
export function streamText(input: OperatorInput): string {
  return [input.partitioning.replaceAll("_", " "), input.key && `by ${input.key}`, input.feedback && "feedback"].filter(Boolean).join(", ");
}

export type Panel = "partitions" | "configuration" | "log";
const PANELS: readonly Panel[] = ["partitions", "configuration", "log"];
/** Tabs with data, which may be shown to operators and administrators only. */
const GUARDED: readonly Panel[] = ["log"];

/** Which tab of the panel an address names. */
export const panelOf = (word: string | null): Panel => PANELS.find((one) => one === word) ?? "partitions";

export const isGuarded = (panel: Panel): boolean => GUARDED.includes(panel);

/** Whether a tab of the panel needs half of the page: long lines and tables. */
export const isWide = (word: string | null): boolean => isGuarded(panelOf(word));
