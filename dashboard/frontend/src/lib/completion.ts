// What can come next in a specification as YAML, by the place of the cursor. Pure.

import { FIELDS, KINDS } from "./specification.generated";

export interface Completion {
  /** Where the word begins that is completed. */
  from: number;
  options: string[];
}

const PARTITIONING = ["one_to_one", "split", "merge", "full"];
const GUARANTEES = ["exact", "bounded"];
const FLAGS = new Set(["output", "correlated", "deterministic", "feedback"]);

/** The names of the operators of a text. */
export function operatorNames(text: string): string[] {
  const names = [...text.matchAll(/^\s*-\s*(?:\{\s*)?name:\s*([A-Za-z]\w*)/gm)].map((found) => found[1] ?? "");
  return [...new Set(names)];
}

interface Line {
  indent: number;
  /** The first field on the line; empty where there is none. */
  field: string;
}

/** A line without its dash: what follows a dash is indented as far as the text behind it. */
function lineOf(text: string): Line {
  const found = /^(\s*(?:-\s+)*)([A-Za-z_]\w*)?/.exec(text);
  return { indent: found?.[1]?.length ?? 0, field: /^(\s*(?:-\s+)*)[A-Za-z_]\w*\s*:/.test(text) ? (found?.[2] ?? "") : "" };
}

/** The fields around a line that is indented so far, the outermost first. */
function around(lines: readonly string[], indent: number): string[] {
  const path: string[] = [];
  let within = indent;
  for (let index = lines.length - 1; index >= 0 && within > 0; index -= 1) {
    const text = lines[index] ?? "";
    if (!text.trim() || text.trim().startsWith("#")) continue;
    const line = lineOf(text);
    if (line.indent < within) {
      within = line.indent;
      path.unshift(line.field);
    } else if (line.indent === within && /^\s*-/.test(text)) {
      // The first field of an item of a list: what is around the item is further out than its dash.
      within = text.indexOf("-") + 1;
    }
  }
  return path;
}

/** The kind of the operator that these lines belong to: the nearest `kind` before or after the cursor in the same item. */
function kindAt(before: readonly string[], after: readonly string[]): string {
  const begins = (text: string): boolean => /^\s{0,4}-\s/.test(text) && !/^\s{5,}/.test(text);
  for (let index = before.length - 1; index >= 0; index -= 1) {
    const found = /\bkind:\s*([a-z_]+)/.exec(before[index] ?? "");
    if (found) return found[1] ?? "";
    if (begins(before[index] ?? "")) break;
  }
  for (const text of after) {
    if (begins(text)) break;
    const found = /\bkind:\s*([a-z_]+)/.exec(text);
    if (found) return found[1] ?? "";
  }
  return "";
}

export function complete(text: string, position: number): Completion | null {
  const before = text.slice(0, position).split("\n");
  const line = before.pop() ?? "";
  const word = /[A-Za-z_]*\w*$/.exec(line)?.[0] ?? "";
  const from = position - word.length;
  const head = line.slice(0, line.length - word.length);
  const with_ = (options: readonly string[] | undefined): Completion | null => (options?.length ? { from, options: [...options] } : null);
  if (head.includes("#")) return null;

  const value = /([A-Za-z_]\w*)\s*:\s+$/.exec(head)?.[1];
  if (value) {
    if (value === "kind") return with_(around(before, lineOf(line).indent).includes("sink") ? ["parquet"] : Object.keys(KINDS));
    if (value === "partitioning") return with_(PARTITIONING);
    if (value === "guarantee") return with_(GUARANTEES);
    if (value === "from") return with_(operatorNames(text));
    return FLAGS.has(value) ? with_(["true", "false"]) : null;
  }
  const after = text.slice(position).split("\n").slice(1);
  const flow = /([A-Za-z_]\w*)\s*:\s*\[?\s*\{[^}]*$/.exec(head)?.[1];
  const fieldComes = flow ? /[{,]\s*$/.test(head) : /^\s*(?:-\s+)*$/.test(head);
  if (!fieldComes) return null;
  const path = flow ? [...around(before, lineOf(line).indent), flow] : around(before, lineOf(head + "x").indent);
  switch (path.at(-1)) {
    case undefined: return with_(FIELDS["topology"]?.map((field) => `${field}: `));
    case "operators": return with_(FIELDS["operator"]?.map((field) => `${field}: `));
    case "inputs": return with_(FIELDS["input"]?.map((field) => `${field}: `));
    case "key_saving": return with_(FIELDS["key_saving"]?.map((field) => `${field}: `));
    case "sink": return with_(FIELDS["sink"]?.map((field) => `${field}: `));
    case "params": return with_(KINDS[kindAt([...before, line], after)]?.map((field) => `${field}: `));
    default: return null;
  }
}
