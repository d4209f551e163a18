// Where a topology starts that is deployed: with its first tuple, from its newest checkpoint, or with a savepoint.

import type { Action, Choice, Consequence } from "./actions.svelte";
import { fetchContinuation, fetchSavepoints } from "./api";
import type { Topology } from "./entities.generated";
import { age, bytes, count, plural, seconds } from "./format";
import type { Savepoint } from "./savepoints";

/** What the newest version would go on with, as REST tells it. */
export interface Continuation {
  possible: boolean;
  refusal: string;
  problems: { path: string; message: string }[];
  checkpoint: number | null;
  completed_at: string | null;
  size_bytes: number | null;
  committed_epoch: number;
  added: string[];
  removed: string[];
  divided: string[];
  changed: string[];
}

const ANEW = "With its first tuple, without state. The checkpoints and problems of the earlier run are deleted, and outputs are written again.";

/** So many of the newest savepoints are offered; REST and the command line take any. */
const OFFERED = 5;

/** Of all savepoints, newest first, those that a topology is offered. */
export const offered = (topology: Topology, savepoints: readonly Savepoint[]): Savepoint[] =>
  savepoints.filter((one) => one.state === "complete" && one.topology === topology.name).slice(0, OFFERED);

/**
 * What the dialog asks. `found` is undefined for a topology that never ran. `savepoints`: all, newest first. `fits`: what the newest version would begin
 * with, by the savepoint's name, as far as it is known.
 */
export function deployment(topology: Topology, found: Continuation | undefined, savepoints: readonly Savepoint[], fits: ReadonlyMap<string, Continuation>, now: number): Action {
  const all = offered(topology, savepoints);
  const saved = all.filter((one) => fits.get(one.name)?.possible !== false);
  const misfits = all.flatMap((one): Consequence[] => {
    const fit = fits.get(one.name);
    return fit && !fit.possible ? [{ title: `It cannot begin with savepoint ${one.name}`, items: whyNot(fit), tone: "warn" }] : [];
  });
  const options = [...(found?.possible ? [goingOn(found, now)] : []), ...saved.map((one) => beginning(one, now))];
  const without = `Starts version ${topology.version} without state: state, checkpoints and problems of an earlier run are deleted, and its outputs are written again.`;
  const action = {
    title: `Deploy ${topology.name}`,
    verb: "Deploy",
    path: `topologies/${encodeURIComponent(topology.name)}/deploy/`,
    explain: options.length ? `Starts version ${topology.version}.` : found ? without : `Starts version ${topology.version} with its first tuple.`,
    consequences: [...(found ? (found.possible ? consequences(found) : [{ title: "It cannot go on from a checkpoint", items: whyNot(found), tone: "warn" as const }]) : []), ...misfits],
  };
  const anew = { value: "beginning", label: ANEW };
  return options.length ? { ...action, choice: { name: "start", label: "It starts", options: found?.possible ? [...options, anew] : [anew, ...options] } } : action;
}

/** The same with what REST says now. */
export async function deploymentRead(topology: Topology): Promise<Action> {
  const found = topology.deployed_at === null ? undefined : fetchContinuation(topology.name);
  const savepoints = await fetchSavepoints();
  const fits = new Map<string, Continuation>();
  // One that was deleted meanwhile is refused when it is chosen.
  const ask = async ({ name }: Savepoint): Promise<unknown> => fits.set(name, await fetchContinuation(topology.name, name));
  await Promise.allSettled(offered(topology, savepoints).map(ask));
  return deployment(topology, await found, savepoints, fits, Date.now() / 1000);
}

function whyNot(found: Continuation): string[] {
  return found.problems.length ? found.problems.map((problem) => `${problem.path}: ${problem.message}`) : [found.refusal];
}

function goingOn(found: Continuation, now: number): Choice["options"][number] {
  return { value: "checkpoint", label: `From the checkpoint at epoch ${count(found.checkpoint)} (${details(found.size_bytes, found.completed_at, now)}), with its state. Outputs go on.` };
}

function beginning(savepoint: Savepoint, now: number): Choice["options"][number] {
  return {
    value: `savepoint ${savepoint.name}`,
    label: `With savepoint ${savepoint.name}, epoch ${count(savepoint.epoch)} (${details(savepoint.size_bytes, savepoint.ended_at, now)}), as a new deployment. The checkpoints and problems of the earlier run are deleted, and outputs begin after that epoch.`,
    body: { start: "savepoint", savepoint: savepoint.name },
  };
}

function details(size: number | null, at: string | null, now: number): string {
  const moment = seconds(at);
  return [bytes(size), ...(moment === null ? [] : [age(now - moment)])].join(", ");
}

/** What is not as it was, where it goes on. */
function consequences(found: Continuation): Consequence[] {
  const told: Consequence[] = [];
  const replayed = found.committed_epoch - (found.checkpoint ?? 0);
  if (replayed > 0) told.push({ title: `From the checkpoint: ${plural(replayed, "epoch is", "epochs are")} computed again, with the same rows` });
  if (found.changed.length) told.push({ title: "From the checkpoint: these operators give other rows from then on", items: found.changed, tone: "warn" });
  if (found.added.length) told.push({ title: `From the checkpoint: ${plural(found.added.length, "partition begins", "partitions begin")} without state`, items: found.added, tone: "warn" });
  if (found.removed.length) told.push({ title: `From the checkpoint: ${plural(found.removed.length, "partition is", "partitions are")} gone, with their state`, items: found.removed, tone: "warn" });
  if (found.divided.length) told.push({ title: "From the checkpoint: the state of these operators is divided anew among their partitions, by key", items: found.divided });
  return told;
}
