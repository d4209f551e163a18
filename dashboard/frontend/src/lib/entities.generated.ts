// Written by `manage.py typescript` from the models and serializers of the control plane. Do not edit.

/** A time as ISO 8601 in UTC: text order is time order. */
export type Iso = string;

export type TopologyStatus =
  | "draft"
  | "deploying"
  | "running"
  | "degraded"
  | "recovering"
  | "paused"
  | "completed"
  | "failed"
  | "stopping"
  | "stopped";

export type Desired = "running" | "stopped";

export type Guarantee = "exact" | "bounded";

export type MethodPolicy = "auto" | "blocking" | "incremental";

export type RollbackPolicy = "ancestors" | "global";

export type ApprovalPolicy = "automatic" | "approve";

export type RebalancingPolicy = "automatic" | "manual";

export type ReplicationMode = "off" | "advise" | "on";

export type TentativeOutput = "off" | "on";

export type PartitionState = "starting" | "running" | "stalled" | "failed" | "restoring" | "replaying";

export type QueryStatus = "starting" | "available" | "failed" | "recovering" | "parked";

export type Severity = "warning" | "error";

export type NodeState = "requested" | "joining" | "alive" | "suspect" | "lost" | "draining" | "left";

export type NodeRequestState = "pending" | "started" | "joined" | "failed";

export type IncidentState =
  | "open"
  | "acquiring"
  | "restoring"
  | "replaying"
  | "verifying"
  | "catching_up"
  | "closed"
  | "aborted";

export type IncidentTrigger = "detected" | "manual" | "balance" | "overload" | "slow";

export type EntryKind = "stimulus" | "evidence" | "decision" | "step" | "outcome";

export type RecoveryMethod = "blocking" | "incremental" | "move";

export type PlanKind = "deploy" | "recover" | "restore" | "move";

export type PlanState = "planned" | "published" | "applied" | "verified" | "superseded";

export type PredictionKind = "incident" | "wave" | "query";

export type PredictionStage = "nodes" | "start" | "replay" | "settle";

export type CheckpointState = "started" | "completed" | "failed" | "undone";

export type OperationKind =
  | "topology.deploy"
  | "topology.undeploy"
  | "topology.checkpoint"
  | "topology.recover"
  | "topology.rebalance"
  | "topology.restore"
  | "topology.park"
  | "topology.unpark"
  | "topology.pause"
  | "topology.resume"
  | "topology.verify"
  | "topology.savepoint"
  | "node.drain"
  | "node.activate"
  | "node.fail"
  | "node.forget"
  | "rack.drain"
  | "rack.activate"
  | "incident.approve"
  | "incident.pause"
  | "incident.resume"
  | "incident.abort"
  | "incident.accept"
  | "incident.replan";

export type OperationState = "pending" | "running" | "succeeded" | "failed";

export type EventKind =
  | "topology.created"
  | "topology.deployed"
  | "topology.updated"
  | "topology.undeployed"
  | "topology.deleted"
  | "topology.metrics"
  | "topology.replicas"
  | "topology.taken_over"
  | "topology.completed"
  | "topology.failed"
  | "node.joined"
  | "node.suspect"
  | "node.lost"
  | "node.updated"
  | "node.metrics"
  | "node.left"
  | "incident.opened"
  | "incident.grown"
  | "incident.updated"
  | "incident.closed"
  | "plan.published"
  | "plan.applied"
  | "plan.verified"
  | "plan.superseded"
  | "checkpoint.started"
  | "checkpoint.completed"
  | "checkpoint.failed"
  | "query.updated"
  | "query.tentative"
  | "query.corrected"
  | "problem.raised"
  | "operation.updated"
  | "alert.firing"
  | "alert.resolved"
  | "alert.silenced"
  | "alert.unsilenced"
  | "alert.updated"
  | "rule.updated";

export type Channel = "page" | "rest" | "admin" | "cli" | "system";

export type AlertState = "missing" | "pending" | "firing" | "resolved";

export type AlertSeverity = "warning" | "critical";

export type AlertComparison = "above" | "below";

export type MissingPolicy = "show" | "fire";

export type Planner =
  | "adaptive_density"
  | "best_density"
  | "dynamic_programming"
  | "look_ahead"
  | "operator_centric"
  | "optimal"
  | "profit_density";

export type ReplicationPlanner =
  | "structure_aware"
  | "dynamic_programming"
  | "optimal"
  | "greedy"
  | "published";

export type AlertMetric =
  | "query_relative_latency"
  | "query_latency"
  | "availability"
  | "lag"
  | "checkpoint_age"
  | "checkpoint_intervals"
  | "fidelity"
  | "fidelity_rack_loss";

export type Partitioning = "one_to_one" | "split" | "merge" | "full";

export type Tone = "good" | "busy" | "warn" | "bad" | "idle" | "done";

export type EntityName =
  | "topology"
  | "partition"
  | "query"
  | "node"
  | "incident"
  | "entry"
  | "plan"
  | "checkpoint"
  | "problem"
  | "operation"
  | "sample"
  | "alert"
  | "rule"
  | "silence";

export const ENTITY_NAMES: readonly EntityName[] = [
  "topology",
  "partition",
  "query",
  "node",
  "incident",
  "entry",
  "plan",
  "checkpoint",
  "problem",
  "operation",
  "sample",
  "alert",
  "rule",
  "silence",
];

/**
 * How the topology is recovered, whether replicas run, and how many. Numbers that are null are those of the
 * installation (`settings/`), a `replication_budget` a quarter of the partitions.
 */
export interface Policy {
  /** auto: room is used at once; only a topology of which every wave puts back all waits */
  method: MethodPolicy;
  /** who chooses what returns first */
  planner: Planner;
  /** what incremental recovery undoes of what still runs */
  rollback: RollbackPolicy;
  /** whether recovery plans wait for an operator */
  approval: ApprovalPolicy;
  /** when partitions that run move to nodes with more room */
  rebalancing: RebalancingPolicy;
  /** what happens while more comes in than is worked off */
  overload: RebalancingPolicy;
  /** what happens with nodes whose tasks take a multiple of the time of others' */
  slow_nodes: RebalancingPolicy;
  /** so many lost nodes are a correlated failure; empty: the installation's number */
  correlation_threshold: number | null;
  /** seconds from one loss to the next; empty: the installation's number */
  correlation_window: number | null;
  /** whether replicas run */
  replication_mode: ReplicationMode;
  /** who chooses what is worth a replica */
  replication_planner: ReplicationPlanner;
  /** partitions that a replication plan may replicate; empty: a quarter of all */
  replication_budget: number | null;
  /** what queries do that lack a part of their input */
  tentative_output: TentativeOutput;
  /** share of its output, 0 to 1, above which a query gives tentative output */
  tentative_fidelity: number;
  /** what complete tentative output counts for in recovery plans, 0 to 1, where final output counts for 1 */
  tentative_worth: number;
  tentative_except: string[];
}

/** What the loss of one rack would take down. A node of which no rack is known is a rack of its own. */
export interface RackLoss {
  /** empty where the node is named instead */
  rack: string;
  /** empty where the rack is named */
  node: string;
  /** how many have a partition there */
  queries: number;
  /** of the priority of all queries, 0 to 1 */
  share: number;
  /** whether a partition that every query needs is there */
  common: boolean;
}

/** What the loss of a single rack would take down, while the topology runs. */
export interface RackExposure {
  /** how many there are; 0 while no rack is known */
  racks: number;
  /** racks whose loss would take down every query */
  fatal: number;
  /** the worst eight */
  losses: RackLoss[];
}

/** An active replica that runs. */
export interface Shadow {
  node: string;
  /** it could take over */
  caught_up: boolean;
}

/**
 * What became of the states of keys on one node, of a topology whose guarantee is bounded. What is stored is
 * counted since it was deployed there, what partitions fetched since its driver began.
 */
export interface NodeKeys {
  /** states, each as often as it was stored */
  stored: number;
  /** of these */
  stored_bytes: number;
  /** objects of the storage in which they are */
  segments: number;
  /** requests that are still to be stored */
  waiting: number;
  /** in a row */
  storing_failures: number;
  /**
   * Unix seconds until which nothing is stored, because storing has failed so often; then it is tried again;
   * 0: it is not bypassed
   */
  storing_bypassed_until: number;
  /** in a row */
  fetching_failures: number;
  /** Unix seconds until which no state is fetched, likewise */
  fetching_bypassed_until: number;
  /** why the last request failed, if it did */
  error: string;
  /** keys that partitions which had lost their state asked for, and whose state was stored */
  fetched: number;
  /** keys of these of which no state was stored */
  unknown: number;
  /** keys of these that had no answer in time, and began without state */
  unanswered: number;
  /** keys of these for which the storage was not asked, because it was bypassed */
  bypassed: number;
  /** keys that found no place to wait in, because too much waited; they are tried again */
  refused: number;
  /** rows for partitions that did not run */
  lost_rows: number;
  /** keys that have changed and are not stored yet */
  changed: number;
  /** seconds of input since the first of these has changed; 0 without any */
  oldest: number;
}

/** A stream that an operator receives. */
export interface StreamInput {
  /** the operator that sends */
  from: string;
  partitioning: Partitioning;
  /** whether it closes a cycle */
  feedback: boolean;
}

/** An operator as the page draws it. */
export interface OperatorNode {
  name: string;
  kind: string;
  description: string;
  /** partitions */
  parallelism: number;
  /** of the queries that an output operator defines */
  priority: number;
  /** whether its results leave the topology */
  output: boolean;
  /** whether it joins its inputs: losing one loses everything */
  correlated: boolean;
  deterministic: boolean;
  /** what is known of that, in a sentence */
  determinism: string;
  /** how often the state of a key is stored, if it has any; empty where the guarantee is exact */
  every: string;
  /** longest way from a source, which is on level 0 */
  level: number;
  inputs: StreamInput[];
}

/** The operators of a topology, by level. */
export interface Graph {
  operators: OperatorNode[];
}

/** The state of something and the word for it, as everything that shows it says it. */
export interface Health {
  /** for programs */
  state: string;
  /** for people */
  word: string;
  /** how it looks */
  tone: Tone;
  /** the number that is judged */
  value: number | null;
  /** what it is judged by: a relative latency, or how many queries there are */
  limit: number | null;
  /** a sentence that says more, or empty */
  note: string;
  /** since when `state` is this one */
  since: Iso | null;
}

/** A topology, how it is to be recovered, and where its run stands. */
export interface Topology {
  name: string;
  version: number;
  /**
   * of the newest version. exact: each row counts once, whatever fails; bounded: what is left goes on at once
   * after a failure, each row counts at most once, and the state of a key lacks at most what came since it
   * was stored last
   */
  guarantee: Guarantee;
  status: TopologyStatus;
  desired: Desired;
  error: string;
  /** auto: room is used at once; only a topology of which every wave puts back all waits */
  method: MethodPolicy;
  policy: Policy;
  generation: number;
  /** generation of the plan the driver reported last */
  applied_generation: number;
  head_epoch: number;
  committed_epoch: number;
  checkpoint_epoch: number;
  /** tuples per second */
  input_rate: number;
  /** seconds of work for each second of input; empty: not known yet */
  load: number | null;
  /** seconds of input that wait */
  lag: number;
  /**
   * seconds until what is behind has caught up, as the driver estimates it: 86,400 if it comes no nearer;
   * empty: nothing is behind, or no pace is known yet
   */
  catch_up: number | null;
  /** since when more has come in than was worked off */
  overloaded_since: Iso | null;
  slow_since: Record<string, Iso>;
  rack_exposure: RackExposure;
  /** partition to its active replica */
  shadows: Record<string, Shadow>;
  /** partition to the node on which a replica has taken over, until a plan knows of it */
  acting: Record<string, string>;
  /** by node, what became of the states of keys; empty where the guarantee is exact */
  keys: Record<string, NodeKeys>;
  deployed_at: Iso | null;
  created_at: Iso;
  graph: Graph;
  description: string;
  /** seconds between checkpoints; null: as the installation says */
  checkpoint_interval: number | null;
  health: Health;
  /** action to why it is refused now; an action that is not named is permitted */
  refusals: Record<string, string>;
}

/** One partition of an operator: where it runs and how it does. */
export interface Partition {
  partition: string;
  topology: string;
  operator: string;
  index: number;
  node: string | null;
  state: PartitionState;
  /** cores that are planned for it at least, as its operator says */
  cpu_request: number;
  epoch: number;
  /** CPU seconds per second of its node, without what every node takes anyway */
  cpu: number;
  rows_in_rate: number;
  rows_out_rate: number;
  state_bytes: number;
}

/** An output partition with everything upstream of it. */
export interface Query {
  partition: string;
  topology: string;
  priority: number;
  status: QueryStatus;
  available: boolean;
  /** stopped to leave its room to others */
  parked: boolean;
  /** share of its output, 0 to 1, that its tentative rows have; empty: it gives none */
  fidelity: number | null;
  /** seconds */
  latency: number | null;
  /** seconds */
  baseline_latency: number | null;
  relative_latency: number | null;
  epoch: number;
  health: Health;
}

/** A host that can run partitions. */
export interface Node {
  name: string;
  address: string;
  rack: string;
  slots: number;
  /** CPU percent */
  capacity: number;
  standby: boolean;
  state: NodeState;
  registered_at: Iso | null;
  last_heartbeat: Iso | null;
  /** measured; 100 is one core */
  cpu_percent: number | null;
  /** CPU percent that the planner expects at the normal pace */
  predicted_percent: number | null;
  /** share of the quota's periods in which the node was stopped, between 0 and 1 */
  throttled: number;
  memory_bytes: number | null;
  disk_free_bytes: number | null;
  provider: string;
  health: Health;
  /** action to why it is refused now; an action that is not named is permitted */
  refusals: Record<string, string>;
}

/** A plan that waits for a confirmation; see `approve`. */
export interface Proposal {
  /** id, for `approve` */
  proposal: string;
  /** of the topology when it was proposed */
  generation: number;
  wave: number;
  method: string;
  rollback: boolean;
  restore: string[];
  queries: string[];
  reason: string;
}

/** Which queries a failure took down. */
export interface Summary {
  /** topology name to ids of queries */
  failed_queries?: Record<string, string[]>;
  /** `topology/query` to when it was available again */
  returned?: Record<string, string>;
}

/** When something is expected to be over. */
export interface Over {
  /** what it waits for */
  stage: PredictionStage;
  expected_at: Iso;
  /** with high_at: the range that holds in 80 of 100 cases */
  low_at: Iso;
  high_at: Iso;
}

export interface OverOfWave {
  /** what it waits for */
  stage: PredictionStage;
  expected_at: Iso;
  /** with high_at: the range that holds in 80 of 100 cases */
  low_at: Iso;
  high_at: Iso;
  /** as `topology/generation` */
  wave: string;
}

export interface OverOfQueries {
  /** what it waits for */
  stage: PredictionStage;
  expected_at: Iso;
  /** with high_at: the range that holds in 80 of 100 cases */
  low_at: Iso;
  high_at: Iso;
  /** as `topology/query` */
  queries: string[];
}

/** One that was made when the incident or a wave began a stage. */
export interface Predicted {
  /** what it waits for */
  stage: PredictionStage;
  expected_at: Iso;
  /** with high_at: the range that holds in 80 of 100 cases */
  low_at: Iso;
  high_at: Iso;
  kind: PredictionKind;
  /** `topology/generation` of a wave, else empty */
  subject: string;
  made_at: Iso;
  /** when it really was */
  over_at: Iso | null;
}

/** When an incident will be over. */
export interface Forecast {
  /** why nothing can be expected, or empty */
  held?: string;
  over?: Over | null;
  waves?: OverOfWave[];
  queries?: OverOfQueries[];
  course?: Predicted[];
}

/** One failure of one or several nodes, from detection to verified recovery. */
export interface Incident {
  number: number;
  state: IncidentState;
  method: RecoveryMethod;
  trigger: IncidentTrigger;
  reason: string;
  /** when the first sign was noticed */
  detected_at: Iso;
  opened_at: Iso;
  closed_at: Iso | null;
  first_query_at: Iso | null;
  half_queries_at: Iso | null;
  all_queries_at: Iso | null;
  failed_nodes: string[];
  topologies: string[];
  checkpoints: Record<string, number>;
  /** replacements asked for */
  wanted_nodes: number;
  /** nothing new is planned until resumed */
  paused: boolean;
  /** topology name to the plan that waits */
  proposals: Record<string, Proposal>;
  /** mean priority-weighted availability from detection until all queries are back, 0 to 1 */
  availability_area: number | null;
  summary: Summary;
  forecast: Forecast;
  health: Health;
  /** action to why it is refused now; an action that is not named is permitted */
  refusals: Record<string, string>;
}

/** One line of an incident's story. */
export interface Entry {
  /** its number */
  incident: number;
  at: Iso;
  kind: EntryKind;
  text: string;
  data: Record<string, unknown>;
}

/** What a topology's driver was told to run, and where; `generation` only grows. */
export interface Plan {
  topology: string;
  incident: number | null;
  generation: number;
  wave: number;
  kind: PlanKind;
  method: RecoveryMethod;
  rollback: boolean;
  /** outputs are kept for what is not restored yet */
  buffering: boolean;
  checkpoint: number;
  assignment: Record<string, string>;
  restore: string[];
  state: PlanState;
  reason: string;
  explanation: Record<string, unknown>;
  created_at: Iso;
  published_at: Iso | null;
  applied_at: Iso | null;
  caught_up_at: Iso | null;
  verified_at: Iso | null;
}

/** The state of every partition after epoch `epoch`. */
export interface Checkpoint {
  topology: string;
  epoch: number;
  generation: number;
  state: CheckpointState;
  /** whether it is in storage and can be restored */
  stored: boolean;
  acknowledged: number;
  total: number;
  size_bytes: number;
  started_at: Iso;
  ended_at: Iso | null;
  restored_at: Iso | null;
  /** why it failed */
  cause: string;
  requested_by: string;
  /** action to why it is refused now; an action that is not named is permitted */
  refusals: Record<string, string>;
}

/** Something that went wrong, and what to do about it; repetitions are counted. */
export interface Problem {
  topology: string | null;
  /** last time it happened */
  at: Iso;
  first_at: Iso;
  severity: Severity;
  where: string;
  what: string;
  hint: string;
  count: number;
}

/** An asynchronous action that a user asked for. */
export interface Operation {
  id: string;
  kind: OperationKind;
  target: string;
  state: OperationState;
  requested_by: string;
  reason: string;
  result: Record<string, unknown>;
  error: string;
  created_at: Iso;
  ended_at: Iso | null;
}

/** How many queries of a topology were available at an instant. */
export interface Sample {
  topology: string;
  at: Iso;
  available: number;
  total: number;
  /** share of the total priority that is available, 0 to 1 */
  weighted: number;
  /** queries that are not available and give tentative output */
  tentative: number;
}

/** One time that a rule applies to one topology or query. */
export interface Alert {
  id: number;
  rule: string;
  metric: AlertMetric;
  comparison: AlertComparison;
  threshold: number;
  severity: AlertSeverity;
  runbook: string;
  topology: string;
  /** empty: the whole topology */
  query: string;
  state: AlertState;
  /** empty: no data */
  value: number | null;
  /** when its condition began to hold, or its value to be missing */
  since: Iso;
  fired_at: Iso | null;
  resolved_at: Iso | null;
  /** why it ended, if not because its condition did not hold */
  because: string;
  /** id of the silence that covers it; null: none */
  silence: number | null;
  /** the topology, or `topology/query` */
  subject: string;
  /** what it says, in a sentence */
  text: string;
}

/** A condition on a metric, and for how long it must hold before an alert fires. */
export interface Rule {
  id: number;
  /** its name in alerts, silences and the audit trail; cannot be changed */
  name: string;
  /** what is judged; cannot be changed */
  metric: AlertMetric;
  comparison: AlertComparison;
  /** in the unit of the metric; of a share, 1 is all */
  threshold: number;
  /** seconds for which the condition must hold before an alert fires */
  held: number;
  /** seconds for which the condition must not hold before the alert ends */
  calm: number;
  /** what happens where the value stays away for as long as the condition must hold */
  missing: MissingPolicy;
  severity: AlertSeverity;
  /** the one that it judges; empty: all */
  topology: string;
  /** queries of a lower priority are left out; for metrics of queries and their share only */
  priority: number;
  enabled: boolean;
  /** what to do when it fires: a text, or an address that begins with https:// or http:// */
  runbook: string;
  created_by: string;
  created_at: Iso;
  updated_at: Iso;
}

/** Alerts that nothing is told of for some time; an empty name stands for all. */
export interface Silence {
  id: number;
  rule: string;
  topology: string;
  until: Iso;
  author: string;
  reason: string;
  created_at: Iso;
  /** empty: it lasts */
  ended_at: Iso | null;
  /** who ended it early; empty: its time was over */
  ended_by: string;
}

/** The fields of an entity that changed, to be merged; or its removal where `fields` is null. */
export interface Change {
  entity: EntityName;
  key: string;
  fields: Record<string, unknown> | null;
}

/** A numbered event. Over REST `topology` and `node` are "" where they are null here. */
export interface NumberedEvent {
  sequence: number;
  at: Iso;
  kind: EventKind;
  topology: string | null;
  node: string | null;
  incident: number | null;
  actor: string;
  reason: string;
  changes: Change[];
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
  alert: Alert;
  rule: Rule;
  silence: Silence;
}

/** The state of everything at one sequence number: entity, then key, then fields. */
export interface Snapshot {
  sequence: number;
  server_time: Iso;
  entities: { [E in EntityName]: Record<string, EntityTypes[E]> };
}
