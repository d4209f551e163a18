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
