// A specification that is being edited: what is wrong on which line, and drafts that survive a reload. Pure but for the storage.

export interface SpecificationProblem {
  path: string;
  message: string;
  line?: number | null;
}

export interface Verdict {
  valid: boolean;
  problems: SpecificationProblem[];
  notes: SpecificationProblem[];
  topology: { name: string; operators: number; partitions: number; queries: string[] } | null;
}

export interface Pipeline {
  name: string;
  description: string;
  text: string;
}

/** The line (from 1) of a problem; 1 where it concerns the whole. */
export function problemLine(problem: SpecificationProblem, lines: number): number {
  const told = problem.line ?? Number(/^line (\d+)/.exec(problem.path)?.[1] ?? 1);
  return Math.min(Math.max(1, told), Math.max(1, lines));
}

/** Where it is, in words; empty where it concerns the whole. */
export function problemPlace(problem: SpecificationProblem): string {
  const path = problem.path.startsWith("line ") ? "" : problem.path;
  const line = problem.line ? `line ${problem.line}` : problem.path.startsWith("line ") ? problem.path : "";
  return [line, path].filter(Boolean).join(", ");
}

/** What a new topology begins with. */
export const BLANK = `name: my-topology
description: What it answers
operators:
  - name: Source
    kind: source
    params: {reader: file, path: /data/tweets.parquet, rate: 1000}
  - name: Parser
    kind: flat_map_regex
    inputs: [{from: Source, partitioning: one_to_one}]
    params: {pattern: '#(\\w+)', field: text, group: 1, fold: lower}
  - name: Counts
    kind: sliding_window
    inputs: [{from: Parser, partitioning: full, key: key}]
    params: {size_s: 60, slide_s: 10}
    output: true
`;

/** Lines added and taken out, counted without regard to their order. */
export function lineChanges(before: string, after: string): { added: number; removed: number } {
  const counts = new Map<string, number>();
  for (const line of before.split("\n")) counts.set(line, (counts.get(line) ?? 0) + 1);
  let added = 0;
  for (const line of after.split("\n")) {
    const left = counts.get(line) ?? 0;
    if (left) counts.set(line, left - 1);
    else added += 1;
  }
  return { added, removed: [...counts.values()].reduce((sum, left) => sum + left, 0) };
}

export interface Draft {
  /** The version it was made from; 0 of a new topology. */
  version: number;
  text: string;
}
const key = (topology: string): string => `resurge.draft.${topology}`;

export function draftOf(topology: string): Draft | null {
  try {
    const draft = JSON.parse(sessionStorage.getItem(key(topology)) ?? "null") as Draft | null;
    return draft && typeof draft.version === "number" && typeof draft.text === "string" ? draft : null;
  } catch {
    return null;
  }
}

/** `draft` null: there is nothing to keep any more. */
export function draftKeep(topology: string, draft: Draft | null): void {
  try {
    if (draft === null) sessionStorage.removeItem(key(topology));
    else sessionStorage.setItem(key(topology), JSON.stringify(draft));
  } catch {
    // Without storage a reload loses the draft; nothing else depends on it.
  }
}

/** What to know of a draft that was made from another version than the newest one; empty of any other. */
export const outdatedWords = (made: number, newest: number): string =>
  made === newest ? "" : `Your text was made from version ${made}, and version ${newest} is the newest one. Saving replaces what version ${newest} changed: compare them first.`;
