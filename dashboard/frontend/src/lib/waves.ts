// The plans of an incident as waves: the queries each restores or the partitions it moves, its CPU, and its progress.

import type { Entry, Incident, Plan } from "./entities.generated";
import { readExplanation, type Explanation } from "./explanation";
import { byName, plural, seconds } from "./format";
import type { PlanStatus } from "./status";

export interface Wave {
  key: string;
  topology: string;
  generation: number | null;
  wave: number;
  state: PlanStatus;
  method: string;
  /** Takes partitions that run to other nodes; else it restores what has failed. */
  moves: boolean;
  rollback: boolean;
  buffering: boolean;
  checkpoint: number | null;
  reason: string;
  restore: string[];
  queries: string[];
  nodes: string[];
  explanation: Explanation;
  /** Id of the proposal, while it waits for a confirmation. */
  proposal: string | null;
  planned: number | null;
  published: number | null;
  applied: number | null;
  caughtUp: number | null;
  verified: number | null;
}

function stateOf(plan: Plan): PlanStatus {
  if (plan.caught_up_at && ["applied", "superseded"].includes(plan.state)) return "caught_up";
  return plan.method === "move" && plan.state === "applied" ? "catching_up" : plan.state;
}

/** Where the partitions of a wave that moves them come from and go to, in the order of the nodes. */
export interface Route {
  from: string;
  to: string;
  partitions: string[];
}

export function routesOf(wave: Wave): Route[] {
  const { movedFrom, placed } = wave.explanation;
  return placed
    .flatMap(([to, partitions]) => [...new Set(partitions.flatMap((partition) => movedFrom[partition] ?? []))].map((from): Route => (
      { from, to, partitions: partitions.filter((partition) => movedFrom[partition] === from) }
    )))
    .sort((a, b) => byName(a.from, b.from) || byName(a.to, b.to));
}

/** The nodes that partitions leave. */
export const origins = (wave: Wave): string[] => [...new Set(Object.values(wave.explanation.movedFrom))].sort(byName);

/** `4 partitions moved`, or `to move` before the driver has applied the plan. */
export const movedWords = (wave: Wave): string => `${plural(wave.restore.length, "partition")} ${wave.applied === null ? "to move" : "moved"}`;

export function waveOfPlan(plan: Plan): Wave {
  const explanation = readExplanation(plan.explanation);
  return {
    key: `${plan.topology}/${plan.generation}`,
    topology: plan.topology,
    generation: plan.generation,
    wave: plan.wave,
    state: stateOf(plan),
    method: plan.method,
    moves: plan.method === "move",
    rollback: plan.rollback,
    buffering: plan.buffering,
    checkpoint: plan.checkpoint,
    reason: plan.reason,
    restore: [...plan.restore].sort(byName),
    queries: explanation.queries,
    nodes: [...new Set(plan.restore.map((partition) => plan.assignment[partition]).filter((node) => node !== undefined))].sort(byName),
    explanation,
    proposal: null,
    planned: seconds(plan.created_at),
    published: seconds(plan.published_at),
    applied: seconds(plan.applied_at),
    caughtUp: seconds(plan.caught_up_at),
    verified: seconds(plan.verified_at),
  };
}

/** Plans that wait for a confirmation; their explanations are told in the story only. */
export function proposedWaves(incident: Incident, entries: readonly Entry[]): Wave[] {
  return Object.entries(incident.proposals ?? {}).map(([topology, proposal]): Wave => {
    const told = entries.findLast((entry) => entry.data?.["proposal"] === proposal.proposal && entry.data["fact"] === "proposed");
    const explanation = readExplanation(told?.data["explanation"] as Record<string, unknown> | undefined);
    const checkpoint = (told?.data["explanation"] as { checkpoint?: number } | undefined)?.checkpoint ?? null;
    return {
      key: `${topology}/${proposal.proposal}`, topology, generation: null, wave: proposal.wave, state: "proposed", method: proposal.method, moves: proposal.method === "move",
      rollback: proposal.rollback, buffering: proposal.method === "incremental", checkpoint, reason: proposal.reason,
      restore: [...proposal.restore].sort(byName), queries: proposal.queries, nodes: explanation.placed.map(([node]) => node), explanation,
      proposal: proposal.proposal, planned: seconds(told?.at), published: null, applied: null, caughtUp: null, verified: null,
    };
  }).sort((a, b) => byName(a.topology, b.topology));
}

export interface Mark {
  at: number;
  text: string;
  kind: "node" | "wave" | "outcome";
}

/** When nodes came, by the facts of the story: those within a second are one mark. */
export function arrivals(entries: readonly Entry[]): Mark[] {
  const marks: { at: number; names: string[] }[] = [];
  for (const entry of entries) {
    if (entry.data?.["fact"] !== "arrived") continue;
    const at = seconds(entry.at);
    const name = String(entry.data["node"] ?? "");
    if (at === null || !name) continue;
    const last = marks.at(-1);
    if (last && at - last.at < 1) last.names.push(name);
    else marks.push({ at, names: [name] });
  }
  return marks.map(({ at, names }) => ({ at, kind: "node", text: names.length > 2 ? `+${names.length} nodes` : `+ ${names.join(", ")}` }));
}

export function waveMarks(waves: readonly Wave[]): Mark[] {
  const several = new Set(waves.map((wave) => wave.topology)).size > 1;
  return waves.flatMap((wave): Mark[] => {
    const at = wave.applied ?? wave.published;
    return at === null || wave.state === "superseded" && wave.applied === null ? [] : [{ at, kind: "wave", text: `wave ${wave.wave}${several ? ` ${wave.topology}` : ""}` }];
  });
}

/** Shares of the incident's time, 0 to 1, that a wave spent in each step; the last one may still go on. */
export function course(wave: Wave, from: number, to: number): { step: string; from: number; to: number }[] {
  const span = Math.max(1, to - from);
  const share = (at: number): number => Math.min(1, Math.max(0, (at - from) / span));
  if (wave.planned === null) return [];
  const over = wave.state === "superseded" && wave.applied === null;
  const steps: [string, number | null, number | null][] = [
    ["planned", wave.planned, wave.published ?? (over ? wave.planned : wave.applied)],
    ["published", wave.published, wave.applied ?? (over ? wave.published : null)],
    ["replaying", wave.applied, wave.caughtUp ?? wave.verified],
  ];
  return steps.flatMap(([step, start, end]) => (start === null ? [] : [{ step, from: share(start), to: share(end ?? (step === "planned" && wave.published !== null ? wave.published : to)) }]));
}
