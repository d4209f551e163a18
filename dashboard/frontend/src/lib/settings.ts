// The thresholds of the installation: the effect of each, and of a larger or smaller value.

import { spell } from "./format";

/** As `GET /api/v1/settings/` gives them; durations in seconds. */
export interface Settings {
  session_timeout: number;
  heartbeat_interval: number;
  fault_injection: boolean;
  replacement_delay: string;
  correlation_window: number;
  correlation_threshold: number;
  max_utilisation: number;
  overload_after: number;
  slow_after: number;
  forget_nodes_after: number;
  rack_price: number;
  moves_at_once: number;
  theta: number;
  checkpoint_interval: number;
}

export interface Threshold {
  name: keyof Settings;
  label: string;
  variable: string;
  shown: (value: Settings) => string;
  /** What it decides, with this value. */
  effect: (value: Settings) => string;
  larger?: string;
  smaller?: string;
}

const many = (number: number, one: string): string => `${number} ${number === 1 ? one : `${one}s`}`;

/** `uniform:120:360` or `fixed:30`, in words. */
export function delayWords(text: string): string {
  const [kind, low, high] = text.split(":");
  const seconds = [Number(low), Number(high ?? low)] as const;
  if (!kind || seconds.some((one) => !Number.isFinite(one))) return text;
  return seconds[0] === seconds[1] ? spell(seconds[0]) : `${spell(seconds[0])} to ${spell(seconds[1])}`;
}

export const GROUPS: { title: string; note: string; thresholds: Threshold[] }[] = [
  {
    title: "Detecting failures", note: "from silence to an incident",
    thresholds: [
      {
        name: "session_timeout", label: "Session timeout", variable: "RESURGE_SESSION_TIMEOUT", shown: (one) => spell(one.session_timeout),
        effect: (one) => `A silent node counts as lost after about ${spell(one.session_timeout)}, when its ZooKeeper session ends.`,
        larger: "Fewer false alarms on an unstable network; recovery starts later.", smaller: "Failures are detected sooner; a long garbage collection may look like a failure.",
      },
      {
        name: "heartbeat_interval", label: "Heartbeat interval", variable: "RESURGE_HEARTBEAT_INTERVAL", shown: (one) => spell(one.heartbeat_interval),
        effect: (one) => `Each node sends a heartbeat every ${spell(one.heartbeat_interval)}. Silence of ${spell(2 * one.heartbeat_interval)} confirms the end of its registration, and ${spell(3 * one.heartbeat_interval)} confirms that partitions are missing in the driver.`,
        larger: "Less traffic with very many nodes.", smaller: "Failures are confirmed sooner.",
      },
      {
        name: "correlation_window", label: "Correlation window", variable: "RESURGE_CORRELATION_WINDOW", shown: (one) => spell(one.correlation_window),
        effect: (one) => `Nodes lost at most ${spell(one.correlation_window)} one after the other count as lost together, as do all that were lost since the last global checkpoint.`,
        larger: "A slow cascade counts as one correlated failure, even if checkpoints were completed in between.", smaller: "Only losses between two checkpoints count together.",
      },
      {
        name: "correlation_threshold", label: "Correlation threshold", variable: "RESURGE_CORRELATION_THRESHOLD", shown: (one) => many(one.correlation_threshold, "node"),
        effect: (one) => `From ${many(one.correlation_threshold, "node")} lost together on, queries return in waves even in topologies where every wave rolls back running partitions: those that are not deterministic, or whose policy is global rollback. All other topologies always use free capacity at once.`,
        larger: "Small failures wait for replacements and are recovered in one step.", smaller: "Small failures are recovered in waves, too.",
      },
    ],
  },
  {
    title: "Planning a recovery", note: "node capacity, and when a query counts as back",
    thresholds: [
      {
        name: "max_utilisation", label: "Most CPU planned on a node", variable: "RESURGE_MAX_UTILISATION", shown: (one) => `${Math.round(one.max_utilisation * 100)} %`,
        effect: (one) => `No plan puts more than ${Math.round(one.max_utilisation * 100)} % of its capacity on a node; the rest is for catching up and for peaks.`,
        larger: "More queries return on the remaining nodes, but they catch up more slowly.", smaller: "More CPU to catch up, but more queries wait for replacements.",
      },
      {
        name: "overload_after", label: "Overload", variable: "RESURGE_OVERLOAD_AFTER", shown: (one) => (one.overload_after ? `${one.overload_after} s` : "off"),
        effect: (one) => one.overload_after
          ? `When input arrives faster than it is processed for ${one.overload_after} s, the least valuable queries are parked, if the topology's policy allows it.`
          : "No query is parked automatically.",
        larger: "Short peaks delay all queries.", smaller: "Queries are parked for short peaks.",
      },
      {
        name: "slow_after", label: "Slow nodes", variable: "RESURGE_SLOW_AFTER", shown: (one) => (one.slow_after ? `${one.slow_after} s` : "off"),
        effect: (one) => one.slow_after
          ? `A node whose tasks take several times as long as those of other nodes for ${one.slow_after} s is drained, if the topology's policy allows it.`
          : "No node is drained automatically.",
        larger: "Queries that need a slow node are late for longer.", smaller: "Nodes that would soon recover are drained.",
      },
      {
        name: "forget_nodes_after", label: "Forget nodes", variable: "RESURGE_FORGET_NODES_AFTER", shown: (one) => (one.forget_nodes_after ? spell(one.forget_nodes_after) : "never"),
        effect: (one) => one.forget_nodes_after
          ? `A lost node whose partitions all run elsewhere disappears from every list after ${spell(one.forget_nodes_after)}.`
          : "Lost nodes stay in the table of nodes until an operator forgets them.",
        larger: "Lost nodes stay in the table of nodes for longer.", smaller: "The table of nodes is shorter.",
      },
      {
        name: "rack_price", label: "Price of spreading over racks", variable: "RESURGE_RACK_PRICE", shown: (one) => (one.rack_price ? `${Math.round(one.rack_price * 100)} %` : "off"),
        effect: (one) => one.rack_price
          ? `Partitions are placed and moved so that the loss of a rack takes down few queries, as far as epochs take at most ${Math.round(one.rack_price * 100)} % longer.`
          : "Placement ignores racks.",
        larger: "The loss of a rack takes down fewer queries, but epochs may take longer.", smaller: "Epochs are shorter, but the loss of a rack may take down more queries.",
      },
      {
        name: "moves_at_once", label: "Moves per plan", variable: "RESURGE_MOVES_AT_ONCE", shown: (one) => String(one.moves_at_once),
        effect: (one) => `A rebalancing plan moves at most ${one.moves_at_once} partitions or chains of partitions; in a small topology at most a tenth of them and ten more.`,
        larger: "A large topology is rebalanced sooner, but more partitions move at the same time.", smaller: "Fewer partitions move at the same time, but it takes more plans.",
      },
      {
        name: "theta", label: "Limit of relative latency (θ)", variable: "RESURGE_THETA", shown: (one) => `${one.theta.toFixed(2)}×`,
        effect: (one) => `After a failure a query counts as available again when its mean latency over 5 s is below ${one.theta.toFixed(2)} times what it was before. During an incident it counts as unavailable again above ${(one.theta * 1.25).toFixed(2)} times. While no incident is open, higher latency alone takes no query down.`,
        larger: "Queries count as back while they still catch up.", smaller: "Queries count as back only at nearly normal latency.",
      },
      {
        name: "replacement_delay", label: "Time until a replacement joins", variable: "RESURGE_REPLACEMENT_DELAY", shown: (one) => delayWords(one.replacement_delay),
        effect: (one) => `The provider starts a new node ${delayWords(one.replacement_delay)} after the request. What-if and the look-ahead planner use this time.`,
      },
    ],
  },
  {
    title: "Checkpoints and experiments", note: "",
    thresholds: [
      {
        name: "checkpoint_interval", label: "Checkpoint interval", variable: "RESURGE_CHECKPOINT_INTERVAL", shown: (one) => spell(one.checkpoint_interval),
        effect: (one) => `A global checkpoint starts every ${spell(one.checkpoint_interval)}, so a recovery replays up to about that much. A topology may have its own interval.`,
        larger: "Fewer uploads; more to replay.", smaller: "Less to replay; more uploads and more files.",
      },
      {
        name: "fault_injection", label: "Fault injection", variable: "RESURGE_FAULT_INJECTION", shown: (one) => (one.fault_injection ? "on" : "off"),
        effect: (one) => (one.fault_injection ? "Operators may kill nodes from these pages, as an experiment. Switch it off in production." : "Nodes cannot be killed from these pages."),
      },
    ],
  },
];
