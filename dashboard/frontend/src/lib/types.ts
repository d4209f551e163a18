// Answers of the REST API that only one or two components show. What the snapshot and the events carry is in
// `entities.generated.ts`.

import type { Iso } from "./entities.generated";

/** An API token of the user; the token itself is shown once, when it is made. */
export interface Token {
  token_key: string;
  created: Iso;
  expiry: Iso | null;
}

export interface CreatedToken extends Token {
  token: string;
}

/** One accepted specification of a topology. */
export interface Version {
  number: number;
  spec: Record<string, unknown>;
  created_at: Iso;
  created_by: string;
  reason: string;
}

/** A partition that would move if a rack were drained; `fits`: another node has room for it. */
export interface RackMove {
  topology: string;
  partition: string;
  node: string;
  fits: boolean;
}

/** What draining a rack now would do. */
export interface Rack {
  name: string;
  /** Node to its state. */
  nodes: Record<string, string>;
  leaving: string[];
  draining: string[];
  awaited: string[];
  moves: RackMove[];
  needed_percent: number;
  free_percent: number;
  others: string[];
  refusals: Record<string, string>;
}
