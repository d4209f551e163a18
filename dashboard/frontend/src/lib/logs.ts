// The end of an operator's logs. Pure.

import { clock, plural } from "./format";

export type LogLevel = "debug" | "info" | "warning" | "error";

export interface LogLine {
  source: string;
  at: string | null;
  level: LogLevel;
  text: string;
}

export interface OperatorLog {
  topology: string;
  operator: string;
  /** All that have partitions of the operator, then those that the topology's newest incident lost. */
  nodes: string[];
  sources: { name: string; whole: boolean }[];
  unread: { name: string; reason: string }[];
  matching: number;
  lines: LogLine[];
}

export interface LogQuestion {
  text: string;
  level: string;
  node: string;
}

export const LEVELS: [string, string][] = [["info", "Info and above"], ["warning", "Warnings and errors"], ["error", "Errors"]];
export const MOST_LINES = 500;

/** The question as the server takes it; what the address has and the server does not know is left out. */
export function logQuery(question: LogQuestion, nodes: readonly string[]): string {
  const known = LEVELS.some(([level]) => level === question.level);
  const asked = { text: question.text.slice(0, 200), level: known ? question.level : "", node: nodes.includes(question.node) ? question.node : "" };
  return new URLSearchParams([["limit", String(MOST_LINES)], ...Object.entries(asked).filter(([, value]) => value)]).toString();
}

const BEGINNINGS = [
  /^timestamp='[^']+' level='[a-z]+' /,
  /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[[a-z]+ *\] /,
  /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.,]\d{3} [A-Z]+ /,
  /^\d\d\/\d\d\/\d\d \d\d:\d\d:\d\d [A-Z]+ /,
];

/** A line without the time and level that stand before it. */
export function bodyOf(text: string): string {
  const found = BEGINNINGS.find((one) => one.test(text));
  return found ? text.replace(found, "") : text;
}

/** Lines with what is shown of each: the time and the source only where they differ from the line before. */
export function shownLines(lines: readonly LogLine[], now: number): { key: string; time: string; source: string; level: LogLevel; word: string; body: string }[] {
  const seen = new Map<string, number>();
  return lines.map((line, index) => {
    const before = lines[index - 1];
    // The same line may come twice: its number among its equals keeps keys apart and stable while lines are added.
    const identity = `${line.source}|${line.at}|${line.text}`;
    const number = seen.get(identity) ?? 0;
    seen.set(identity, number + 1);
    return {
      key: `${identity}|${number}`,
      time: line.at === null || (before?.at === line.at && before.source === line.source) ? "" : clock(line.at, now),
      source: before?.source === line.source ? "" : line.source,
      level: line.level,
      // Lines of a traceback have the level of their first line, which says it once.
      word: isSerious(line.level) && bodyOf(line.text) !== line.text ? line.level : "",
      body: bodyOf(line.text),
    };
  });
}

export const isSerious = (level: LogLevel): boolean => level === "warning" || level === "error";
export const levelTone = (level: LogLevel): string => (level === "error" ? "bad" : level === "warning" ? "warn" : "idle");

/** What was looked at, in a sentence. */
export function extentText(log: OperatorLog): string {
  const cut = log.sources.filter((source) => !source.whole).length;
  const files = log.sources.length ? `${plural(log.sources.length, "log")} read` : "no log read";
  const ends = cut ? ` (only the end${cut === log.sources.length ? "" : ` of ${cut}`})` : "";
  const left = log.matching > log.lines.length ? `; the last ${log.lines.length} of ${log.matching} lines` : "";
  return `${files}${ends}${left}`;
}

