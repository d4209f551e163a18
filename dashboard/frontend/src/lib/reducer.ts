// The state every page shows: a snapshot of the control plane plus numbered events applied in order.
// Pure: the store holds the current state and decides what to do about a gap.

import { ENTITY_NAMES, type Checkpoint, type EntityName, type EntityTypes, type NumberedEvent, type Snapshot } from "./entities.generated";

export type Entities = { readonly [E in EntityName]: ReadonlyMap<string, EntityTypes[E]> };

export interface State {
  readonly sequence: number;
  readonly entities: Entities;
}

export type Outcome = { state: State; gap: boolean; touched: ReadonlySet<EntityName> };

// Series and journals grow for ever; the page keeps the newest rows and those of `spared`, the server keeps the rest.
const KEEP: Partial<Record<EntityName, number>> = { sample: 4_000, problem: 400, checkpoint: 400, entry: 2_000, operation: 200, plan: 400, alert: 2_000, silence: 600 };

export function emptyState(): State {
  const entities = Object.fromEntries(ENTITY_NAMES.map((entity) => [entity, new Map()]));
  return { sequence: 0, entities: entities as unknown as Entities };
}

export function fromSnapshot(snapshot: Snapshot): State {
  const entities = Object.fromEntries(
    ENTITY_NAMES.map((entity) => [entity, new Map(Object.entries(snapshot.entities[entity] ?? {}))]),
  );
  return { sequence: snapshot.sequence, entities: entities as unknown as Entities };
}

/**
 * Applies the events a message carries. `after` and `upto` are the range of sequence numbers it covers
 * (events of other topologies in the range may be left out by the server). Events already applied are
 * skipped; a range that starts beyond the state is a gap: nothing is applied and the snapshot is needed.
 */
export function applyEvents(state: State, events: readonly NumberedEvent[], after: number, upto: number): Outcome {
  if (after > state.sequence) return { state, gap: true, touched: new Set() };
  const copies = new Map<EntityName, Map<string, Record<string, unknown>>>();
  let last = state.sequence;
  for (const event of events) {
    if (event.sequence <= last) continue;
    for (const change of event.changes) {
      if (!isEntity(change.entity)) continue; // a newer server may tell of things this page does not show
      let rows = copies.get(change.entity);
      if (!rows) {
        rows = new Map(state.entities[change.entity] as ReadonlyMap<string, unknown>) as Map<string, Record<string, unknown>>;
        copies.set(change.entity, rows);
      }
      if (change.fields === null) rows.delete(change.key);
      else rows.set(change.key, { ...rows.get(change.key), ...change.fields });
    }
    last = event.sequence;
  }
  const entities = copies.size ? ({ ...state.entities, ...Object.fromEntries(copies) } as Entities) : state.entities;
  for (const [entity, rows] of copies) trim(rows, KEEP[entity], () => spared(entity, entities));
  return {
    state: { sequence: Math.max(last, upto), entities },
    gap: false,
    touched: new Set(copies.keys()),
  };
}

function isEntity(name: string): name is EntityName {
  return (ENTITY_NAMES as readonly string[]).includes(name);
}

function trim(rows: Map<string, unknown>, keep: number | undefined, spared: () => ReadonlySet<unknown>): void {
  if (keep === undefined || rows.size <= keep * 1.1) return;
  const stays = spared();
  let surplus = rows.size - keep;
  for (const [key, row] of rows) {
    if (surplus <= 0) break;
    if (stays.has(row)) continue;
    rows.delete(key);
    surplus -= 1;
  }
}

/** Rows that stay however old they are: a snapshot has them beside the newest ones, and pages count on them. */
function spared(entity: EntityName, { alert, checkpoint, operation, plan, topology }: Entities): ReadonlySet<unknown> {
  switch (entity) {
    case "alert": return new Set([...alert.values()].filter((row) => row.state !== "resolved"));
    case "checkpoint": return new Set(newestComplete(checkpoint.values()));
    case "operation": return new Set([...operation.values()].filter((row) => row.ended_at === null));
    case "plan": return new Set([...plan.values()].filter((row) => row.generation === topology.get(row.topology)?.generation));
    default: return new Set();
  }
}

/** Of each topology. */
function newestComplete(rows: Iterable<Checkpoint>): Iterable<Checkpoint> {
  const newest = new Map<string, Checkpoint>();
  for (const row of rows) {
    if (row.state === "completed" && row.epoch >= (newest.get(row.topology)?.epoch ?? 0)) newest.set(row.topology, row);
  }
  return newest.values();
}
