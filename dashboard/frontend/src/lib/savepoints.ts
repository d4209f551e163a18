// Savepoints: making one of a checkpoint, and deleting one.

import { actions } from "./actions.svelte";
import type { Checkpoint } from "./entities.generated";
import { bytes, count } from "./format";

/** A named copy of a checkpoint, as REST tells it. */
export interface Savepoint {
  name: string;
  topology: string;
  version: number;
  epoch: number;
  state: "making" | "complete" | "failed";
  size_bytes: number;
  cause: string;
  imported: boolean;
  requested_by: string;
  reason: string;
  created_at: string;
  ended_at: string | null;
}

export function makeSavepoint(checkpoint: Checkpoint): void {
  actions.ask({
    title: `Make a savepoint of ${checkpoint.topology} at epoch ${count(checkpoint.epoch)}`,
    verb: "Make savepoint",
    path: `topologies/${encodeURIComponent(checkpoint.topology)}/savepoints/`,
    body: { checkpoint: checkpoint.epoch },
    explain: "Copies this checkpoint. The copy stays until it is deleted, and a later deployment can begin with it, also in another version. The topology goes on.",
    consequences: [{ title: `Takes another ${bytes(checkpoint.size_bytes)} of the checkpoint storage.` }],
    fields: [{ name: "name", label: "Name (small letters, digits, . - _)", kind: "text", value: `${checkpoint.topology}-${checkpoint.epoch}` }],
  });
}

export function deleteSavepoint(savepoint: Savepoint, done: () => void): void {
  actions.ask({
    title: `Delete savepoint ${savepoint.name}`,
    verb: "Delete",
    path: `savepoints/${encodeURIComponent(savepoint.name)}/`,
    explain: `It is a copy of ${savepoint.topology}, version ${savepoint.version}, at epoch ${count(savepoint.epoch)} (${bytes(savepoint.size_bytes)}). Files that were exported from it stay usable.`,
    consequences: [{ title: "No deployment can begin with it any more.", tone: "bad" }],
    edit: "remove",
    danger: true,
    done,
  });
}
