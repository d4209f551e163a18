// Actions on incidents, each with its effects.

import { actions, type Consequence } from "./actions.svelte";
import type { Incident } from "./entities.generated";
import { cores, coresNumber, count, percent, plural } from "./format";
import { isDown } from "./health";
import { store } from "./store.svelte";
import { origins, type Wave } from "./waves";

const path = (incident: Incident, verb: string): string => `incidents/${incident.number}/${verb}/`;

export function loadWords(wave: Wave): string {
  const { cost, capacity } = wave.explanation;
  return cost === null || capacity === null ? "" : `${coresNumber(cost)} of the ${cores(capacity)} that are free`;
}

/** What a wave would do, as the dialog and the proposal tell it. */
export function effects(wave: Wave): Consequence[] {
  if (wave.moves) return movesEffects(wave);
  const { value, total, left } = wave.explanation;
  const found: Consequence[] = [
    wave.queries.length
      ? { title: `${plural(wave.queries.length, "query returns", "queries return")}${value !== null && total ? `: priority ${value} of ${total} (${percent(value / total)})` : ""}`, items: wave.queries }
      : { title: "No query returns with this wave; it prepares for the next one." },
    { title: `${plural(wave.restore.length, "partition")} restored on ${wave.nodes.join(", ") || "the present nodes"}${loadWords(wave) ? `, taking ${loadWords(wave)}` : ""}`, items: wave.restore },
    wave.rollback
      ? { title: `All running partitions of ${wave.topology} go back to ${wave.checkpoint === null ? "its checkpoint" : `the checkpoint at epoch ${count(wave.checkpoint)}`} and replay.`, tone: "warn" }
      : { title: "Running partitions are not affected." },
  ];
  if (left.length) found.push({ title: `${plural(left.length, "partition stays", "partitions stay")} down until further nodes join`, items: left, tone: "warn" });
  return found;
}

function movesEffects(wave: Wave): Consequence[] {
  const from = origins(wave).join(", ");
  return [
    { title: `${plural(wave.restore.length, "partition moves with its state", "partitions move with their state")}${from ? `, from ${from}` : ""} to ${wave.nodes.join(", ") || "other nodes"}`, items: wave.restore },
    { title: "No query stops or goes back to a checkpoint; latencies are higher for about one epoch." },
  ];
}

export function approve(incident: Incident, wave: Wave): void {
  actions.ask({
    title: `Approve wave ${wave.wave} of ${wave.topology}`,
    verb: "Approve",
    path: path(incident, "approve"),
    body: { proposal: wave.proposal },
    explain: `Proposal ${wave.proposal} is carried out unchanged. If a node joins or fails first, there is a new proposal, and this one is refused.`,
    consequences: effects(wave),
  });
}

export function pauseRecovery(incident: Incident): void {
  actions.ask({
    title: `Pause the recovery of incident ${incident.number}`,
    verb: "Pause",
    path: path(incident, "pause"),
    explain: "No further wave is planned and no node is requested until it is resumed. Waves under way continue.",
    consequences: [...downNow(incident, "stay down during the pause"), ...underWay(incident)],
  });
}

export function resumeRecovery(incident: Incident): void {
  actions.ask({
    title: `Resume the recovery of incident ${incident.number}`,
    verb: "Resume",
    path: path(incident, "resume"),
    explain: "The recovery plans the next wave with the current nodes and requests missing nodes again.",
    consequences: downNow(incident, "can be planned again"),
  });
}

export function replan(incident: Incident): void {
  actions.ask({
    title: `Replan incident ${incident.number}`,
    verb: "Replan",
    path: path(incident, "replan"),
    explain: "Discards plans that are not applied yet, ends a wait for replacements, and plans again with the current nodes and priorities.",
    consequences: [...thrownAway(incident), ...downNow(incident, "are planned again")],
  });
}

export function acceptLatencies(incident: Incident): void {
  const down = [...store.entities.query.values()].filter((row) => incident.topologies.includes(row.topology) && isDown(row)).map((row) => (incident.topologies.length > 1 ? `${row.topology} ${row.partition}` : row.partition));
  actions.ask({
    title: `Accept the latencies after incident ${incident.number}`,
    verb: "Accept",
    path: path(incident, "accept"),
    explain: "Everything is restored. The present latency of each query becomes its usual latency, and the incident closes. It cannot be opened again.",
    consequences: [{ title: `${plural(down.length, "query is", "queries are")} not available as before`, items: down, tone: "warn" }],
  });
}

export function abort(incident: Incident): void {
  actions.ask({
    title: `Abort incident ${incident.number}`,
    verb: "Abort the recovery",
    path: path(incident, "abort"),
    explain: "Ends the incident in its present state. It cannot be opened again; Recover now on the page of the topology restores the rest.",
    consequences: [...downNow(incident, "stay down"), ...underWay(incident)],
    danger: true,
  });
}

function downNow(incident: Incident, what: string): Consequence[] {
  const rows = [...store.entities.partition.values()].filter((row) => row.state === "failed" && incident.topologies.includes(row.topology));
  const queries = [...store.entities.query.values()].filter((row) => !row.available && incident.topologies.includes(row.topology));
  const name = (row: { topology: string; partition: string }): string => (incident.topologies.length > 1 ? `${row.topology} ${row.partition}` : row.partition);
  if (!rows.length) return [{ title: "Every failed partition is in a plan." }];
  return [
    { title: `${plural(rows.length, "partition")} ${what}`, items: rows.map(name), tone: "warn" },
    ...(queries.length ? [{ title: `${plural(queries.length, "query is", "queries are")} not available now`, items: queries.map(name) }] : []),
  ];
}

function underWay(incident: Incident): Consequence[] {
  const plans = [...store.entities.plan.values()].filter((plan) => plan.incident === incident.number && ["published", "applied"].includes(plan.state) && !plan.caught_up_at);
  return plans.map((plan) => ({ title: `Wave ${plan.wave} of ${plan.topology} (generation ${plan.generation}) continues: ${plural(plan.restore.length, "partition")}.` }));
}

function thrownAway(incident: Incident): Consequence[] {
  const plans = [...store.entities.plan.values()].filter((plan) => plan.incident === incident.number && ["planned", "published"].includes(plan.state));
  const proposals = Object.values(incident.proposals ?? {});
  return [
    ...plans.map((plan): Consequence => ({ title: `Wave ${plan.wave} of ${plan.topology} (generation ${plan.generation}) is discarded`, items: plan.restore, tone: "warn" })),
    ...proposals.map((one): Consequence => ({ title: `Proposal ${one.proposal} is withdrawn and made again.` })),
  ];
}
