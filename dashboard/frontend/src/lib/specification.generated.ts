// Written by `manage.py typescript` from the specification and the operators. Do not edit.

/** Part of a specification to the fields that it can have. */
export const FIELDS: Record<string, readonly string[]> = {
  topology: ["name", "operators", "description", "epoch_interval", "checkpoint_interval", "checkpoints_kept", "checkpoints_kept_for", "checkpoint_mode", "checkpoint_pause", "checkpoints_at_once", "checkpoint_timeout", "checkpoint_failures", "max_epoch_tuples", "catch_up_epochs", "drain_epochs", "guarantee", "key_saving", "sink"],
  operator: ["name", "kind", "parallelism", "inputs", "params", "output", "priority", "cpu_request", "correlated", "deterministic", "every", "description"],
  input: ["from", "partitioning", "key", "feedback"],
  key_saving: ["every", "serialise_threads", "serialise_keep_alive_s", "serialise_outstanding", "store_threads", "store_keep_alive_s", "store_outstanding", "fetch_threads", "fetch_keep_alive_s", "fetch_wait_s", "failures", "bypass_s"],
  sink: ["kind", "compact_s", "keep_days", "keep_gb"],
};

/** Kind of an operator to its parameters. */
export const KINDS: Record<string, readonly string[]> = {
  source: ["reader", "path", "sample", "text", "ts", "ts_unit", "partition_by", "rate", "arrivals", "speedup", "limit", "pace", "origin", "surges", "stream", "users", "segments", "zipf", "seed", "every_s", "options", "lateness_s", "idle_after_s"],
  flat_map_regex: ["pattern", "field", "group", "fold"],
  filter: ["column", "comparison", "value"],
  project: ["columns"],
  map: ["function", "arguments"],
  python: ["class", "params"],
  sql: ["query"],
  sliding_window: ["size_s", "slide_s"],
  tumbling_window: ["size_s"],
  window_average: ["value", "size_s", "slide_s"],
  top_k: ["k", "add_up"],
  latest: [],
  windowed_join: ["size_s", "column", "time"],
  distinct: ["columns", "size_s"],
  union: [],
  transitions: ["column"],
  components: [],
  least: [],
  page_rank: ["size_s", "rounds"],
  ranks: [],
};
