// What the snapshot and the events carry, as controlplane/events/representation.py builds it.

export type Iso = string;

export interface StreamInput {
  from: string;
  partitioning: "one_to_one" | "split" | "merge" | "full";
  feedback?: boolean;
}

export interface OperatorNode {
  name: string;
  kind: string;
  description?: string;
  parallelism: number;
  output: boolean;
  level: number;
  correlated?: boolean;
  deterministic?: boolean;
  inputs: StreamInput[];
}

export interface Topology {
  name: string;
  version: number;
  status: string;
  desired: string;
  method: string;
  policy: Policy;
  error: string;
  generation: number;
  applied_generation: number;
  head_epoch: number;
  committed_epoch: number;
  checkpoint_epoch: number;
  input_rate: number;
  description?: string;
  deployed_at: Iso | null;
  created_at: Iso | null;
  graph?: { operators: OperatorNode[] };
  /** Action to why the server refuses it now; an action that is not named is permitted. */
  refusals: Record<string, string>;
}

/** The recovery policy of a topology; null numbers are the installation's. */
export interface Policy {
  method: string;
  planner: string;
  rollback: string;
  approval: string;
  correlation_threshold: number | null;
  correlation_window: number | null;
  replication_planner: string;
  /** null: a quarter of the partitions. */
  replication_budget: number | null;
}

export interface Partition {
  topology: string;
  partition: string;
  operator: string;
  index: number;
  node: string | null;
  state: string;
  epoch: number;
  cpu: number;
  rows_in_rate: number;
  rows_out_rate: number;
  state_bytes: number;
}

export interface Query {
  topology: string;
  partition: string;
  priority: number;
  status: string;
  latency: number | null;
  baseline_latency: number | null;
  relative_latency: number | null;
  available: boolean;
  epoch: number;
}

export interface Node {
  name: string;
  address: string;
  rack: string;
  slots: number;
  capacity: number;
  standby: boolean;
  state: string;
  registered_at: Iso | null;
  last_heartbeat: Iso | null;
  cpu_percent: number | null;
  memory_bytes: number | null;
  disk_free_bytes: number | null;
  provider: string;
  /** Action to why the server refuses it now; an action that is not named is permitted. */
  refusals: Record<string, string>;
}

export interface Incident {
  number: number;
  state: string;
  method: string;
  trigger: string;
  reason: string;
  detected_at: Iso | null;
  opened_at: Iso;
  closed_at: Iso | null;
  failed_nodes: string[];
  topologies: string[];
  checkpoints: Record<string, number>;
  first_query_at: Iso | null;
  half_queries_at: Iso | null;
  all_queries_at: Iso | null;
  wanted_nodes: number;
  paused: boolean;
  /** Topology to the plan that waits for a confirmation. */
  proposals: Record<string, Proposal>;
  availability_area: number | null;
  summary: { failed_queries?: Record<string, string[]>; returned?: Record<string, string> };
  /** Action to why the server refuses it now; an action that is not named is permitted. */
  refusals: Record<string, string>;
}

export interface Proposal {
  proposal: string;
  generation: number;
  wave: number;
  method: string;
  rollback: boolean;
  restore: string[];
  queries: string[];
  reason: string;
}

export interface Entry {
  incident: number;
  at: Iso;
  kind: "stimulus" | "evidence" | "decision" | "step" | "outcome";
  text: string;
  data: Record<string, unknown>;
}

export interface Plan {
  topology: string;
  incident: number | null;
  wave: number;
  generation: number;
  kind: string;
  method: string;
  rollback: boolean;
  buffering: boolean;
  checkpoint: number;
  assignment: Record<string, string>;
  restore: string[];
  state: string;
  reason: string;
  explanation: Record<string, unknown>;
  created_at: Iso;
  published_at: Iso | null;
  applied_at: Iso | null;
  caught_up_at: Iso | null;
  verified_at: Iso | null;
}

export interface Checkpoint {
  topology: string;
  epoch: number;
  generation: number;
  state: string;
  /** Whether it is in storage and a topology can be put back to it. */
  stored: boolean;
  acknowledged: number;
  total: number;
  size_bytes: number;
  started_at: Iso;
  ended_at: Iso | null;
  restored_at: Iso | null;
  cause: string;
  requested_by: string;
  /** Action to why the server refuses it now; an action that is not named is permitted. */
  refusals: Record<string, string>;
}

export interface Problem {
  topology: string | null;
  at: Iso;
  first_at: Iso;
  severity: string;
  where: string;
  what: string;
  hint: string;
  count: number;
}

export interface Operation {
  id: string;
  kind: string;
  target: string;
  state: string;
  requested_by: string;
  reason: string;
  created_at: Iso;
  ended_at: Iso | null;
  result: unknown;
  error: string;
}

export interface Sample {
  topology: string;
  at: Iso;
  available: number;
  total: number;
  weighted: number;
}

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

export interface EntityTypes {
  topology: Topology;
  partition: Partition;
  query: Query;
  node: Node;
  incident: Incident;
  entry: Entry;
  plan: Plan;
  checkpoint: Checkpoint;
  problem: Problem;
  operation: Operation;
  sample: Sample;
}

export type EntityName = keyof EntityTypes;

export interface Change {
  entity: string;
  key: string;
  fields: Record<string, unknown> | null;
}

export interface NumberedEvent {
  sequence: number;
  at: Iso;
  kind: string;
  topology?: string | null;
  node?: string | null;
  incident?: number | null;
  actor?: string;
  reason?: string;
  changes: Change[];
}

export interface Snapshot {
  sequence: number;
  server_time: Iso | number;
  entities: Partial<Record<EntityName, Record<string, Record<string, unknown>>>>;
}
