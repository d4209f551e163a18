// The recovery policy of a topology: its fields, their choices, and what each means.

import { actions } from "./actions.svelte";
import { boot } from "./boot";
import { humanise, sentence } from "./format";
import { REPLICATION_PLANNERS } from "./replication";
import type { Policy, Query, Topology } from "./types";

export interface Field {
  name: keyof Policy;
  label: string;
  /** What it decides. */
  help: string;
  choices?: { value: string; label: string; help: string }[];
  unit?: string;
  min?: number;
  step?: number;
  /** What counts where no number is set; without it that of the installation. */
  unset?: string;
}

const PLANNERS: Record<string, string> = {
  adaptive_density: "The better of best density and a bounded search around it.",
  best_density: "Most priority per CPU, what queries share counted once. Fast for any size.",
  blocking: "Everything at once, when as many nodes are there as were lost.",
  dynamic_programming: "Exact; for about 20 failed queries at most.",
  look_ahead: "Plans this wave for all waves that are expected.",
  operator_centric: "The cheapest partition whose upstream is back, whatever query it serves: the baseline.",
  optimal: "Integer programming, with a proof or the gap at its time limit.",
  profit_density: "One pass in the order of priority per CPU.",
};

export const plannerHelp = (name: string): string => PLANNERS[name] ?? "";
export const plannerLabel = (name: string): string => humanise(name);

export const FIELDS: Field[] = [
  {
    name: "method", label: "Method", help: "Restore everything at once, or what is worth most first",
    choices: [
      { value: "auto", label: "By the failure", help: "Blocking below the threshold of nodes lost together, incremental from it on." },
      { value: "blocking", label: "Blocking", help: "Waits for as many nodes as were lost, then restores everything." },
      { value: "incremental", label: "Incremental", help: "Uses every free node at once, in waves, the most valuable queries first." },
    ],
  },
  { name: "planner", label: "Planner", help: "Who chooses what returns first", choices: boot.planners.map((value) => ({ value, label: plannerLabel(value), help: plannerHelp(value) })) },
  {
    name: "rollback", label: "Rollback", help: "What happens to queries that still run",
    choices: [
      { value: "ancestors", label: "Only what failed replays", help: "What runs goes on; restored partitions catch up beside it." },
      { value: "global", label: "Everything goes back", help: "The first wave puts the whole topology back to its checkpoint." },
    ],
  },
  {
    name: "approval", label: "Approval", help: "Who releases a plan",
    choices: [
      { value: "automatic", label: "Automatic", help: "Plans are carried out as soon as they are made." },
      { value: "approve", label: "An operator confirms each plan", help: "Each wave waits as a proposal on the incident's page." },
    ],
  },
  { name: "correlation_threshold", label: "Correlation threshold", help: "So many nodes lost together make recovery incremental", unit: "nodes", min: 1, step: 1 },
  { name: "correlation_window", label: "Correlation window", help: "Nodes are lost together when each is at most this long after the one before", unit: "s", min: 0, step: 0.5 },
  { name: "replication_planner", label: "Replication planner", help: "Who chooses what is worth a replica, where a plan is asked for without one", choices: REPLICATION_PLANNERS.map(([value, help]) => ({ value, label: humanise(value), help: `${sentence(help)}.` })) },
  { name: "replication_budget", label: "Replication budget", help: "Partitions that may be replicated, where a plan is asked for without a number", unit: "partitions", min: 0, step: 1, unset: "a quarter of all" },
];

/** Numbers that are not set count as those of the installation. */
export const isDefault = (field: Field, value: Policy[keyof Policy]): boolean => value === null || (field.choices !== undefined && value === boot.policyDefaults[field.name]);

export function shown(field: Field, value: Policy[keyof Policy]): string {
  if (value === null && field.unset) return field.unset;
  const known = value ?? boot.policyDefaults[field.name];
  const choice = field.choices?.find((one) => one.value === known);
  return choice?.label ?? `${known ?? "–"}${field.unit ? ` ${field.unit}` : ""}`;
}

export function savePolicy(topology: Topology, changes: Partial<Policy>): void {
  const named = FIELDS.filter((field) => field.name in changes);
  actions.ask({
    title: `Change how ${topology.name} is recovered`,
    verb: "Save",
    path: `topologies/${encodeURIComponent(topology.name)}/policy/`,
    body: changes,
    edit: "change",
    explain: "Counts from the next look on, also in the middle of an incident.",
    consequences: named.map((field) => ({
      title: `${field.label}: ${shown(field, topology.policy[field.name])} → ${shown(field, changes[field.name] ?? null)}${changes[field.name] === null && !field.unset ? " (the installation's)" : ""}`,
      tone: field.name === "rollback" && changes.rollback === "global" ? "warn" : "idle",
    })),
  });
}

export function savePriority(query: Query, priority: number, incident: number | undefined): void {
  const more = priority > query.priority;
  actions.ask({
    title: `Priority of ${query.partition}: ${query.priority} → ${priority}`,
    verb: "Save",
    path: `topologies/${encodeURIComponent(query.topology)}/queries/${encodeURIComponent(query.partition)}/`,
    body: { priority },
    edit: "change",
    explain: `After a failure ${query.partition} returns ${more ? "earlier" : "later"}, and counts ${more ? "more" : "less"} in the availability by priority.`,
    consequences: [
      incident === undefined
        ? { title: "Nothing that runs now changes." }
        : { title: `Incident ${incident} is open: what is not restored yet is planned by the new priority.`, tone: "warn" },
    ],
  });
}
