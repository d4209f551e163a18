// The checkpoints page for each topology: the share of successes, the newest complete one, failures and their causes.

import { boot } from "./boot";
import type { Checkpoint, Topology } from "./entities.generated";
import { seconds } from "./format";
import type { PartState } from "./status";

export interface Outlook {
  topology: string;
  kept: number;
  completed: number;
  failed: number;
  /** The newest of each, or undefined. */
  newest: Checkpoint | undefined;
  pending: Checkpoint | undefined;
  complete: Checkpoint | undefined;
  failure: Checkpoint | undefined;
  restored: Checkpoint | undefined;
  /** Seconds and bytes of the completed ones, oldest first. */
  durations: number[];
  sizes: number[];
}

/** Seconds from its beginning to its end, or to now. */
export function took(row: Checkpoint, now: number): number | null {
  const from = seconds(row.started_at);
  return from === null ? null : (seconds(row.ended_at) ?? now) - from;
}

/** Seconds without a checkpoint after which a topology that runs is called late: four of its intervals. */
export const lateAfter = (topology: Pick<Topology, "checkpoint_interval"> | undefined): number =>
  4 * (topology?.checkpoint_interval ?? boot.checkpointInterval);

const later = (a: Checkpoint | undefined, b: Checkpoint, time: (row: Checkpoint) => string | null): Checkpoint =>
  a === undefined || (time(a) ?? "") < (time(b) ?? "") ? b : a;

export function outlookOf(topology: string, rows: readonly Checkpoint[]): Outlook {
  const sorted = [...rows].sort((a, b) => a.epoch - b.epoch);
  const completed = sorted.filter((row) => row.state === "completed");
  const outlook: Outlook = {
    topology, kept: rows.length, completed: completed.length, failed: rows.filter((row) => row.state === "failed").length,
    newest: sorted.at(-1), pending: undefined, complete: completed.at(-1), failure: undefined, restored: undefined,
    durations: completed.map((row) => took(row, 0) ?? 0), sizes: completed.map((row) => row.size_bytes),
  };
  for (const row of sorted) {
    if (row.state === "started") outlook.pending = row;
    if (row.state === "failed") outlook.failure = later(outlook.failure, row, (one) => one.ended_at);
    if (row.restored_at) outlook.restored = later(outlook.restored, row, (one) => one.restored_at);
  }
  return outlook;
}

/** One outlook for several topologies, for the figures at the top of the page. */
export function together(outlooks: readonly Outlook[]): Outlook {
  const newest = (pick: (one: Outlook) => Checkpoint | undefined, time: (row: Checkpoint) => string | null): Checkpoint | undefined =>
    outlooks.reduce<Checkpoint | undefined>((found, one) => { const row = pick(one); return row ? later(found, row, time) : found; }, undefined);
  const sum = (pick: (one: Outlook) => number): number => outlooks.reduce((total, one) => total + pick(one), 0);
  return {
    topology: "", kept: sum((one) => one.kept), completed: sum((one) => one.completed), failed: sum((one) => one.failed), durations: [], sizes: [],
    newest: newest((one) => one.newest, (row) => row.started_at),
    pending: newest((one) => one.pending, (row) => row.started_at),
    complete: newest((one) => one.complete, (row) => row.ended_at),
    failure: newest((one) => one.failure, (row) => row.ended_at),
    restored: newest((one) => one.restored, (row) => row.restored_at),
  };
}

/** How a checkpoint is named in an address: `hashtags/5310`. */
export const keyOf = (row: Checkpoint): string => `${row.topology}/${row.epoch}`;

export interface Acknowledgement {
  partition: string;
  node: string;
  size_bytes: number;
  uploaded_bytes: number;
  files: number;
  /** Seconds until it had applied the epoch, null where that is not known; then until the upload began; then of that. */
  alignment: number | null;
  waited: number;
  duration: number;
  error: string;
}

export interface CheckpointDetail extends Checkpoint {
  acknowledgements: Acknowledgement[];
  missing: string[];
}

export interface Part extends Partial<Acknowledgement> {
  partition: string;
  state: PartState;
}

/** Every partition's part: what went wrong first. */
export function partsOf(detail: CheckpointDetail): Part[] {
  return [
    ...detail.acknowledgements.map((ack): Part => ({ ...ack, state: ack.error ? "failed" : "stored" })),
    ...detail.missing.map((partition): Part => ({ partition, state: "missing" })),
  ];
}
