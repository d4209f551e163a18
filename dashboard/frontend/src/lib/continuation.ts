// Where a topology starts that is deployed: with its first tuple, or from its newest checkpoint.

import type { Action, Consequence } from "./actions.svelte";
import type { Topology } from "./entities.generated";
import { age, bytes, count, plural, seconds } from "./format";

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
  changed: string[];
}

const ANEW = "With its first tuple, without state. The checkpoints and problems of the earlier run are deleted, and outputs are written again.";

/** What the dialog asks. `found` is undefined for a topology that never ran. */
export function deployment(topology: Topology, found: Continuation | undefined, now: number): Action {
  const action = {
    title: `Deploy ${topology.name}`,
    verb: "Deploy",
    path: `topologies/${encodeURIComponent(topology.name)}/deploy/`,
  };
  if (!found) return { ...action, explain: `Starts version ${topology.version} with its first tuple.`, consequences: [] };
  if (!found.possible) {
    const why = found.problems.length ? found.problems.map((problem) => `${problem.path}: ${problem.message}`) : [found.refusal];
    return {
      ...action,
      explain: `Starts version ${topology.version} without state: state, checkpoints and problems of an earlier run are deleted, and its outputs are written again.`,
      consequences: [{ title: "It cannot go on from a checkpoint", items: why, tone: "warn" }],
    };
  }
  const at = seconds(found.completed_at);
  const details = [bytes(found.size_bytes), ...(at === null ? [] : [age(now - at)])].join(", ");
  return {
    ...action,
    explain: `Starts version ${topology.version}.`,
    consequences: consequences(found),
    choice: {
      name: "start",
      label: "It starts",
      options: [
        { value: "checkpoint", label: `From the checkpoint at epoch ${count(found.checkpoint)} (${details}), with its state. Outputs go on.` },
        { value: "beginning", label: ANEW },
      ],
    },
  };
}

/** What is not as it was, where it goes on. */
function consequences(found: Continuation): Consequence[] {
  const told: Consequence[] = [];
  const replayed = found.committed_epoch - (found.checkpoint ?? 0);
  if (replayed > 0) told.push({ title: `From the checkpoint: ${plural(replayed, "epoch is", "epochs are")} computed again, with the same rows` });
  if (found.changed.length) told.push({ title: "From the checkpoint: these operators give other rows from then on", items: found.changed, tone: "warn" });
  if (found.added.length) told.push({ title: `From the checkpoint: ${plural(found.added.length, "partition begins", "partitions begin")} without state`, items: found.added, tone: "warn" });
  if (found.removed.length) told.push({ title: `From the checkpoint: ${plural(found.removed.length, "partition is", "partitions are")} gone, with their state`, items: found.removed, tone: "warn" });
  return told;
}
