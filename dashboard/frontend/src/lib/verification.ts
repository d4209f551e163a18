// The newest verification of a topology's outputs, read off the operation that carries it out.

import type { Operation } from "./entities.generated";
import { count, percent, plural } from "./format";

export interface Verification {
  operation: Operation;
  word: "Being verified" | "Not verified" | "Not exact" | "Exact" | "Bounded";
  /** What is known, in a sentence. */
  text: string;
  tone: "good" | "bad" | "busy";
  /** Share that is done, 0 to 1, while it runs; null where that is not known. */
  share: number | null;
  /** A sentence for each query that is wrong or was left out. */
  details: string[];
}

const KIND = "topology.verify";

export function newestVerification(operations: Iterable<Operation>, topology: string): Verification | null {
  let newest: Operation | null = null;
  for (const one of operations) {
    if (one.kind === KIND && one.target === topology && (!newest || one.created_at > newest.created_at)) newest = one;
  }
  return newest && told(newest);
}

export function told(operation: Operation): Verification {
  const { state, result } = operation;
  if (state === "pending") return { operation, word: "Being verified", text: "Waiting to start", tone: "busy", share: null, details: [] };
  if (state === "running") {
    const progress = result["progress"] as { done: number; steps: number } | null | undefined;
    const text = progress ? `Recomputing and comparing: step ${count(progress.done)} of ${count(progress.steps)}` : "Recomputing and comparing";
    return { operation, word: "Being verified", text, tone: "busy", share: progress ? progress.done / Math.max(1, progress.steps) : null, details: [] };
  }
  const details = [...strings(result["wrong"]), ...strings(result["deviating"]), ...strings(result["left_out"]).map((one) => `Not compared: ${one}`)];
  if (typeof result["exact"] !== "number") return { operation, word: "Not verified", text: operation.error || "Ended without a result", tone: "bad", share: null, details };
  const queries = Number(result["queries"]);
  const exact = `${count(result["exact"])} of ${plural(queries, "query is", "queries are")} exact up to epoch ${count(Number(result["epoch"]))}`;
  const right = state === "succeeded";
  const deviation = result["deviation"];
  if (right && typeof deviation === "number" && deviation > 0) {
    // A bounded guarantee promises no exactness: what was measured is told, and is no fault.
    const share = deviation < 0.0001 ? "Less than 0.01 %" : percent(deviation, 2);
    const text = `${share} of the rows deviate, which a bounded guarantee permits; ${exact}`;
    return { operation, word: "Bounded", text, tone: "good", share: null, details };
  }
  return { operation, word: right ? "Exact" : "Not exact", text: `${exact}, ${plural(Number(result["rows"]), "row")}`, tone: right ? "good" : "bad", share: null, details };
}

const strings = (value: unknown): string[] => (Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : []);
