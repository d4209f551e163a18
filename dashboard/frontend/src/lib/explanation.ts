// Why a plan is as it is: what the planner wrote down, read with care, because older plans have less of it.

import { byName } from "./format";

export interface QueryReason {
  query: string;
  priority: number;
  selected: boolean;
  rank: number | null;
  /** CPU percent of all its failed partitions, and of those that no query taken before it restores. */
  cost: number;
  marginal_cost: number;
  failed_partitions: number;
  shared: number;
  density: number | null;
  reason: string;
}

export interface Explanation {
  planner: string | null;
  queries: string[];
  /** Priority that returns with the plan, of all that is down. */
  value: number | null;
  total: number | null;
  /** CPU percent that the plan takes, of what was free. */
  cost: number | null;
  capacity: number | null;
  gap: number | null;
  proven: boolean;
  candidates: number | null;
  note: string;
  left: string[];
  maxUtilisation: number | null;
  load: [string, number][];
  placed: [string, string[]][];
  /** Partition to the node it ran on, if the plan moves it. */
  movedFrom: Record<string, string>;
  reasons: QueryReason[];
}

type Raw = Record<string, unknown>;

const number = (value: unknown): number | null => (typeof value === "number" && Number.isFinite(value) ? value : null);
const texts = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : []);
const entries = (value: unknown): [string, unknown][] => (value && typeof value === "object" && !Array.isArray(value) ? Object.entries(value) : []);

export function readExplanation(raw: Raw | null | undefined): Explanation {
  const from = raw ?? {};
  const byNode = new Map<string, string[]>();
  for (const [partition, node] of entries(from["placed"])) byNode.set(String(node), [...(byNode.get(String(node)) ?? []), partition]);
  return {
    planner: typeof from["planner"] === "string" ? from["planner"] : null,
    queries: texts(from["queries"]),
    value: number(from["value"]),
    total: number(from["total"]),
    cost: number(from["cost_percent"]),
    capacity: number(from["capacity_percent"]),
    gap: number(from["gap"]),
    proven: from["proven"] === true,
    candidates: number(from["candidates"]),
    note: typeof from["note"] === "string" ? from["note"] : "",
    left: texts(from["left"]),
    maxUtilisation: number(from["max_utilisation"]),
    load: entries(from["planned_load_percent"]).map(([node, load]): [string, number] => [node, number(load) ?? 0]).sort((a, b) => byName(a[0], b[0])),
    placed: [...byNode].map(([node, list]): [string, string[]] => [node, list.sort(byName)]).sort((a, b) => byName(a[0], b[0])),
    movedFrom: Object.fromEntries(entries(from["moved_from"]).map(([partition, node]) => [partition, String(node)])),
    reasons: Array.isArray(from["explanations"]) ? (from["explanations"] as QueryReason[]) : [],
  };
}
