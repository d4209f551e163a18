// The recovery policy of a topology: its fields, their choices, and what each means.

import { actions } from "./actions.svelte";
import { boot } from "./boot";
import type { Planner, Policy, Query, Topology } from "./entities.generated";
import { humanise, sentence } from "./format";
import { REPLICATION_PLANNERS } from "./replication";

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

const PLANNERS: Record<Planner | "blocking", string> = {
  adaptive_density: "The better of best density and a bounded search around it.",
  best_density: "Highest priority per CPU first; shared partitions count once. Fast for any size.",
  blocking: "All partitions at once, when as many nodes have joined as were lost.",
  dynamic_programming: "Exact; for about 20 failed queries at most.",
  look_ahead: "Plans this wave with the expected later waves in view.",
  operator_centric: "The cheapest partition whose upstream is back, regardless of its query: the baseline.",
  optimal: "Integer programming, with a proof or the gap at its time limit.",
  profit_density: "One pass in the order of priority per CPU.",
};

export const plannerHelp = (name: string): string => (PLANNERS as Record<string, string>)[name] ?? "";
export const plannerLabel = (name: string): string => humanise(name);

export const FIELDS: Field[] = [
  {
    name: "method", label: "Method", help: "Restore everything at once, or the most valuable queries first",
    choices: [
      { value: "auto", label: "By the failure", help: "Uses free nodes at once, in waves. Waits only where every wave would put back what runs, and the lost partitions do not fit." },
      { value: "blocking", label: "Blocking", help: "Waits for as many nodes as were lost, then restores all partitions." },
      { value: "incremental", label: "Incremental", help: "Uses every free node at once, in waves, the most valuable queries first." },
    ],
  },
  { name: "planner", label: "Planner", help: "The algorithm that chooses which queries return first", choices: boot.planners.map((value) => ({ value, label: plannerLabel(value), help: plannerHelp(value) })) },
  {
    name: "rollback", label: "Rollback", help: "What happens to queries that still run",
    choices: [
      { value: "ancestors", label: "Only failed partitions replay", help: "Running partitions continue; restored ones catch up beside them." },
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
  {
    name: "rebalancing", label: "Even out nodes", help: "When partitions that run move to nodes with more room",
    choices: [
      { value: "automatic", label: "By itself", help: "While all is well and much is gained, and where a recovery does not catch up." },
      { value: "manual", label: "When an operator asks", help: "Only with the button on the topology's page, over REST or on the command line." },
    ],
  },
  {
    name: "overload", label: "Overload", help: "What happens while more comes in than is worked off",
    choices: [
      { value: "automatic", label: "Queries are parked", help: "Those worth least for their time stop, and return by themselves when there is time for them." },
      { value: "manual", label: "When an operator asks", help: "All queries go on and get later and later, until an operator parks some." },
    ],
  },
  {
    name: "slow_nodes", label: "Slow nodes", help: "What happens with a node whose tasks take a multiple of the time of others' for the same work",
    choices: [
      { value: "automatic", label: "They are drained", help: "What runs there moves to other nodes, and nothing is lost. One node at a time, and none during an incident." },
      { value: "manual", label: "When an operator asks", help: "They are only shown. What needs them comes later than the rest, until an operator drains them." },
    ],
  },
  { name: "correlation_threshold", label: "Correlation threshold", help: "With at least this many nodes lost together, a topology whose waves put back what runs is recovered in waves all the same", unit: "nodes", min: 1, step: 1 },
  { name: "correlation_window", label: "Correlation window", help: "Nodes are lost together when each is at most this long after the one before, or no global checkpoint was completed in between", unit: "s", min: 0, step: 0.5 },
  { name: "replication_planner", label: "Replication planner", help: "The algorithm for replication plans, if a request names none", choices: REPLICATION_PLANNERS.map(([value, help]) => ({ value, label: humanise(value), help: `${sentence(help)}.` })) },
  { name: "replication_budget", label: "Replication budget", help: "Partitions that may be replicated, if a request names no number", unit: "partitions", min: 0, step: 1, unset: "a quarter of all" },
];

/** Numbers that are not set are the installation's. */
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
    explain: "Takes effect with the next plan, also during an incident.",
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
        ? { title: "Running partitions do not change." }
        : { title: `Incident ${incident} is open: partitions that are not restored yet are planned with the new priority.`, tone: "warn" },
    ],
  });
}
