// The recovery policy of a topology: its fields, their choices, and what each means.

import { actions, type Action, type Consequence } from "./actions.svelte";
import { fetchTag } from "./api";
import { boot } from "./boot";
import type { Planner, Policy, Query, Topology } from "./entities.generated";
import { humanise, plural, sentence } from "./format";
import { isBounded } from "./guarantee";
import { replicaChanges, REPLICATION_PLANNERS, type ReplicationPlan, type ReplicationQuestion } from "./replication";

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
  /** It is a list of names, and what is shown where there is none. */
  names?: string;
  /** It has no effect where the guarantee is bounded. */
  exactOnly?: true;
}

/** Why replicas and tentative output do not exist where the guarantee is bounded. */
export const BOUNDED_HAS_NONE = "Not with a bounded guarantee: what is left of the topology continues at once in any case.";

/** Whether this field decides something for this topology. */
export const hasEffect = (field: Field, topology: Topology): boolean => !(field.exactOnly && isBounded(topology));

/** Whether two values of a field are the same. */
export const same = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other);

const PLANNERS: Record<Planner | "blocking", string> = {
  adaptive_density: "The better of best density and a bounded search around it.",
  best_density: "Highest priority per CPU first; shared partitions count once. Fast for any size.",
  blocking: "All partitions at once, when as many nodes have joined as were lost.",
  dynamic_programming: "Exact; for about 20 failed queries at most.",
  look_ahead: "Plans this wave with the expected later waves in view.",
  operator_centric: "The cheapest partition whose inputs are back, whichever query it serves. For comparison.",
  optimal: "Integer programming, with a proof or the gap at its time limit.",
  profit_density: "One pass in the order of priority per CPU.",
};

export const plannerHelp = (name: string): string => (PLANNERS as Record<string, string>)[name] ?? "";
export const plannerLabel = (name: string): string => humanise(name);

export const FIELDS: Field[] = [
  {
    name: "method", label: "Method", help: "Restore everything at once, or the most valuable queries first",
    choices: [
      { value: "auto", label: "Automatic", help: "Uses free nodes at once, in waves. Waits for replacements only if every wave would roll back running partitions and the lost partitions do not fit." },
      { value: "blocking", label: "Blocking", help: "Waits for as many nodes as were lost, then restores all partitions." },
      { value: "incremental", label: "Incremental", help: "Uses every free node at once, in waves, the most valuable queries first." },
    ],
  },
  { name: "planner", label: "Planner", help: "The algorithm that chooses which queries return first", choices: boot.planners.map((value) => ({ value, label: plannerLabel(value), help: plannerHelp(value) })) },
  {
    name: "rollback", label: "Rollback", help: "What happens to queries that still run",
    choices: [
      { value: "ancestors", label: "Only failed partitions replay", help: "Running partitions continue; restored ones catch up beside them." },
      { value: "global", label: "Everything rolls back", help: "The first wave rolls the whole topology back to its checkpoint." },
    ],
  },
  {
    name: "approval", label: "Approval", help: "Who approves plans",
    choices: [
      { value: "automatic", label: "Automatic", help: "Plans are carried out as soon as they are made." },
      { value: "approve", label: "An operator approves each plan", help: "Each wave waits as a proposal on the incident's page." },
    ],
  },
  {
    name: "rebalancing", label: "Rebalance partitions", help: "When running partitions move to nodes with more capacity",
    choices: [
      { value: "automatic", label: "Automatic", help: "When everything runs and there is much to gain, or when a recovery does not catch up." },
      { value: "manual", label: "Manual", help: "Only with the button on the topology's page, over REST or on the command line." },
    ],
  },
  {
    name: "overload", label: "Overload", help: "What happens when input arrives faster than it is processed",
    choices: [
      { value: "automatic", label: "Automatic: park queries", help: "The least valuable queries stop, and return automatically when there is capacity." },
      { value: "manual", label: "Manual", help: "All queries continue with growing latency, until an operator parks some." },
    ],
  },
  {
    name: "slow_nodes", label: "Slow nodes", help: "What happens to a node whose tasks take several times as long as those of other nodes",
    choices: [
      { value: "automatic", label: "Automatic: drain the node", help: "Its partitions move to other nodes, and nothing is lost. One node at a time, and none during an incident." },
      { value: "manual", label: "Manual", help: "Slow nodes are only shown. Queries that need them are late until an operator drains them." },
    ],
  },
  { name: "correlation_threshold", label: "Correlation threshold", help: "From this many nodes lost together, a topology is recovered in waves even if every wave rolls back running partitions", unit: "nodes", min: 1, step: 1 },
  { name: "correlation_window", label: "Correlation window", help: "Nodes are lost together when each is at most this long after the one before, or no global checkpoint was completed in between", unit: "s", min: 0, step: 0.5 },
  {
    name: "replication_mode", exactOnly: true, label: "Replicas", help: "Whether partitions have a copy on another node that takes over at once",
    choices: [
      { value: "on", label: "On", help: "The partitions that the replication plan chooses have replicas on nodes of other racks. A replica costs as much CPU as its partition." },
      { value: "advise", label: "Advise", help: "No replica runs. The replication plan says which ones would be worth it." },
      { value: "off", label: "Off", help: "No replica runs." },
    ],
  },
  { name: "replication_planner", exactOnly: true, label: "Replication planner", help: "The algorithm for replication plans, if a request names none", choices: REPLICATION_PLANNERS.map(([value, help]) => ({ value, label: humanise(value), help: `${sentence(help)}.` })) },
  { name: "replication_budget", exactOnly: true, label: "Replication budget", help: "Partitions that may be replicated, if a request names no number", unit: "partitions", min: 0, step: 1, unset: "a quarter of all" },
  {
    name: "tentative_output", exactOnly: true, label: "Tentative output", help: "What queries do that lack a part of their input after a failure",
    choices: [
      { value: "off", label: "Off: wait", help: "They give no output until the lost partitions have been restored." },
      { value: "on", label: "On: continue without it", help: "They continue with the input that is left. These rows are marked tentative, and the final rows replace them after recovery." },
    ],
  },
  { name: "tentative_fidelity", exactOnly: true, label: "Fidelity of tentative output", help: "Only queries of whose output more than this share is left, from 0 to 1", unit: "", min: 0, step: 0.05 },
  { name: "tentative_worth", exactOnly: true, label: "Worth of tentative output", help: "What complete tentative output counts for in recovery plans, from 0 to 1, where final output counts for 1", unit: "", min: 0, step: 0.05 },
  { name: "tentative_except", exactOnly: true, label: "Never tentative", help: "Operators whose queries wait in any case, separated by commas", names: "none" },
];

/** Numbers that are not set are the installation's. */
export const isDefault = (field: Field, value: Policy[keyof Policy]): boolean => value === null || ((field.choices !== undefined || field.names !== undefined || field.unit === "") && same(value, boot.policyDefaults[field.name]));

/** With the number before it: `1 node`, `3 nodes`, `10 s`. */
export const withUnit = (field: Field, number: unknown): string => {
  const unit = field.unit ?? "";
  return `${number ?? "–"} ${number === 1 && unit.length > 1 ? unit.replace(/s$/, "") : unit}`.trim();
};

export function shown(field: Field, value: Policy[keyof Policy]): string {
  if (value === null && field.unset) return field.unset;
  if (field.names) return (value as string[] | null)?.join(", ") || field.names;
  const known = value ?? boot.policyDefaults[field.name];
  const choice = field.choices?.find((one) => one.value === known);
  return choice?.label ?? withUnit(field, known);
}

/** Asks for an edit of what is at a path now: it is refused if another user changes that meanwhile. */
function askAboutThis(path: string, action: Omit<Action, "path" | "tag">): void {
  void actions.askAbout(action.title, () => fetchTag(path), (tag) => ({ ...action, path, tag }));
}

/** `told`: how the dialog differs from that of any change; its consequences come first. */
export function savePolicy(topology: Topology, changes: Partial<Policy>, told: Partial<Pick<Action, "title" | "verb" | "explain" | "consequences">> = {}): void {
  const named = FIELDS.filter((field) => field.name in changes);
  askAboutThis(`topologies/${encodeURIComponent(topology.name)}/policy/`, {
    title: told.title ?? `Change how ${topology.name} is recovered`,
    verb: told.verb ?? "Save",
    body: changes,
    edit: "change",
    explain: told.explain ?? "Takes effect with the next plan, also during an incident.",
    consequences: [...(told.consequences ?? []), ...named.map((field): Consequence => ({
      title: `${field.label}: ${shown(field, topology.policy[field.name])} → ${shown(field, changes[field.name] ?? null)}${changes[field.name] === null && !field.unset ? " (default of the installation)" : ""}`,
      tone: field.name === "rollback" && changes.rollback === "global" ? "warn" : "idle",
    }))],
  });
}

/** Has the replicas of a plan run, or none. */
export function switchReplicas(topology: Topology, question: ReplicationQuestion, mode: "on" | "off", plan: ReplicationPlan | null): void {
  const chosen = plan?.chosen.map((one) => one.partition) ?? [];
  const running = Object.keys(topology.shadows);
  savePolicy(topology, replicaChanges(topology.policy, question, mode), mode === "on"
    ? {
        title: topology.policy.replication_mode === "on" ? `Change which replicas of ${topology.name} run` : `Turn replicas of ${topology.name} on`,
        verb: topology.policy.replication_mode === "on" ? "Change" : "Turn on",
        explain: "Replicas are placed on nodes of other racks within a minute, as far as there is room, a few at a time, and catch up. Then they take over at once when their partition is lost. Queries go on meanwhile.",
        consequences: [{ title: `${plural(chosen.length, "partition")} in the plan. A replica takes as much CPU as its partition.`, items: chosen }],
      }
    : {
        title: `Turn replicas of ${topology.name} off`,
        verb: "Turn off",
        explain: "Replicas stop within about ten seconds, and queries go on. From then on every lost partition waits for its recovery.",
        consequences: [{ title: running.length ? `${plural(running.length, "replica")} ${running.length === 1 ? "stops" : "stop"}` : "No replica runs now.", items: running, tone: running.length ? "warn" : "idle" }],
      });
}

export function savePriority(query: Query, priority: number, incident: number | undefined): void {
  const more = priority > query.priority;
  askAboutThis(`topologies/${encodeURIComponent(query.topology)}/queries/${encodeURIComponent(query.partition)}/`, {
    title: `Priority of ${query.partition}: ${query.priority} → ${priority}`,
    verb: "Save",
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
