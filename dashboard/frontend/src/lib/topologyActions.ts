// Actions on a topology, each with its effects on the running partitions.

import { actions, type Action } from "./actions.svelte";
import { evenness, hostedBy } from "./capacity";
import type { Checkpoint, Query, Topology } from "./entities.generated";
import { byName, count, plural } from "./format";
import { isBounded } from "./guarantee";
import { openIncidents } from "./incidents";
import { refusal } from "./refusals";
import { paths, router } from "./router.svelte";
import { store } from "./store.svelte";

export function takeCheckpoint(topology: Topology): void {
  actions.ask({
    title: `Take a checkpoint of ${topology.name}`,
    verb: "Take checkpoint",
    path: `topologies/${encodeURIComponent(topology.name)}/checkpoint/`,
    explain: "Every partition snapshots its state at the next epoch boundary and uploads it in the background. Results keep flowing.",
    consequences: [{ title: `The last complete one is at epoch ${topology.checkpoint_epoch}; the topology is at ${topology.head_epoch}.` }],
  });
}

export function recoverTopology(topology: Topology): void {
  const partitions = [...store.entities.partition.values()].filter((row) => row.topology === topology.name);
  const [incident, bounded] = [openIncidents(topology.name)[0], isBounded(topology)];
  const down = partitions.filter((row) => row.state === "failed" || row.state === "stalled").map((row) => row.partition).sort(byName);
  actions.ask({
    title: `Recover ${topology.name} now`,
    verb: "Recover now",
    path: `topologies/${encodeURIComponent(topology.name)}/recover/`,
    explain: bounded
      ? "Opens an incident, and replaces what has failed. Lost partitions go on at once, without state; the state of a key comes back when its first row arrives."
      : `Opens an incident, replaces what has failed, and rolls back to the checkpoint at epoch ${topology.checkpoint_epoch}. Later epochs are replayed; outputs stay exact.`,
    consequences: [
      ...(incident ? [{ title: `Incident ${incident.number} is recovering it already; this request becomes part of it.` }] : []),
      down.length ? { title: `${plural(down.length, "partition")} to restore`, items: down, tone: "warn" } : bounded ? { title: "No partition has failed." } : { title: "No partition has failed: the topology restarts from its checkpoint and pauses while it catches up.", tone: "warn" },
      ...(bounded ? [] : [{ title: `${plural(Math.max(0, topology.head_epoch - topology.checkpoint_epoch), "epoch")} to replay.` }]),
    ],
  });
}

export function verifyTopology(topology: Topology): void {
  const queries = [...store.entities.query.values()].filter((row) => row.topology === topology.name).length;
  actions.ask({
    title: `Verify the outputs of ${topology.name}`,
    verb: "Verify outputs",
    path: `topologies/${encodeURIComponent(topology.name)}/verify/`,
    explain: "Recomputes what every query must have written, from the original input and without the engine's operators, and compares row by row. Nothing is changed, and results keep flowing.",
    consequences: [
      { title: `${plural(queries, "query", "queries")}, up to epoch ${count(topology.committed_epoch)}.` },
      { title: "It uses up to one core of the control plane's host, at the lowest priority." },
    ],
    suggestion: "check that the outputs are exact",
  });
}

export function rebalanceTopology(topology: Topology): void {
  const incident = openIncidents(topology.name)[0];
  actions.ask({
    title: `Rebalance the partitions of ${topology.name}`,
    verb: "Rebalance",
    path: `topologies/${encodeURIComponent(topology.name)}/rebalance/`,
    explain: "Running partitions move to other nodes if that shortens epochs, or if fewer queries then depend on one rack. They take their state with them: no query stops or goes back to a checkpoint.",
    consequences: [
      ...(incident ? [{ title: `Incident ${incident.number} is open. If it still brings back partitions of ${topology.name}, nothing moves, and the page of the incident says so.`, tone: "warn" as const }] : []),
      ...evenness(topology.name, store.entities.node.values(), hostedBy(store.entities.partition.values())),
      { title: "Latencies are higher for about one epoch." },
      { title: "If no move gains enough, nothing moves, and the action fails with this reason." },
    ],
  });
}

export function parkQuery(topology: Topology, query: Query): void {
  const bounded = isBounded(topology);
  actions.ask({
    title: `Park ${query.partition} of ${topology.name}`,
    verb: "Park",
    path: `topologies/${encodeURIComponent(topology.name)}/park/`,
    body: { queries: [query.partition] },
    explain: `The query stops, and so does everything that only it needs, so that other queries can use its capacity. ${bounded ? "Its input is not kept: when it is unparked, it goes on without what came meanwhile." : "Its input is kept: when it is unparked, it starts from the newest checkpoint and replays, so its results stay exact."}`,
    consequences: [
      { title: `${query.partition}, priority ${query.priority}, gives no results until it is unparked.`, tone: "warn" },
      { title: bounded ? "An incident stays open until all queries are unparked." : "No checkpoint completes, and disks fill, until all queries are unparked. An incident stays open meanwhile.", tone: "warn" },
    ],
    danger: true,
  });
}

export function unparkQuery(topology: Topology, query: Query): void {
  const bounded = isBounded(topology);
  actions.ask({
    title: `Unpark ${query.partition} of ${topology.name}`,
    verb: "Unpark",
    path: `topologies/${encodeURIComponent(topology.name)}/unpark/`,
    body: { queries: [query.partition] },
    explain: bounded
      ? "The query returns as soon as there is capacity, and goes on without what it has missed."
      : `The query returns as soon as there is capacity. It starts from the checkpoint at epoch ${count(topology.checkpoint_epoch)} and replays what it has missed.`,
    consequences: bounded ? [] : [{ title: `${plural(Math.max(0, topology.head_epoch - topology.checkpoint_epoch), "epoch")} to replay.` }],
  });
}

export function whyNoRestore(topology: Topology | undefined, checkpoint: Checkpoint): string {
  return topology ? refusal(topology, "restore") || refusal(checkpoint, "restore") : "Its topology has been deleted.";
}

export function restoreCheckpoint(topology: Topology, checkpoint: Checkpoint): void {
  const queries = [...store.entities.query.values()].filter((row) => row.topology === topology.name).length;
  const epochs = Math.max(0, topology.head_epoch - checkpoint.epoch);
  actions.ask({
    title: `Roll ${topology.name} back to epoch ${count(checkpoint.epoch)}`,
    verb: "Restore",
    path: `topologies/${encodeURIComponent(topology.name)}/restore/`,
    body: { checkpoint: checkpoint.epoch },
    explain: "All partitions load this checkpoint and replay the epochs since. Results of the replayed epochs are written again; they are the same if all operators are deterministic.",
    consequences: [
      { title: `${plural(epochs, "epoch")} to replay`, tone: "warn" },
      { title: plural(queries, "query pauses while it catches up", "queries pause while they catch up"), tone: "warn" },
      ...(checkpoint.epoch < topology.checkpoint_epoch ? [{ title: `Newer checkpoints, up to epoch ${count(topology.checkpoint_epoch)}, are undone: they cannot be restored any more.`, tone: "warn" as const }] : []),
    ],
    danger: true,
  });
}

export function pauseTopology(topology: Topology): void {
  actions.ask({
    title: `Pause ${topology.name}`,
    verb: "Pause",
    path: `topologies/${encodeURIComponent(topology.name)}/pause/`,
    explain: "Reads no new input from the next epoch on, until it is resumed. Input that arrives during the pause is read later, if the source keeps it.",
    consequences: [{ title: `Epoch ${topology.head_epoch} is the newest now; results stop there.`, tone: "warn" }],
  });
}

export function resumeTopology(topology: Topology): void {
  actions.ask({
    title: `Resume ${topology.name}`,
    verb: "Resume",
    path: `topologies/${encodeURIComponent(topology.name)}/resume/`,
    explain: "Continues from where it was paused, and catches up with the input since then.",
    consequences: [],
  });
}

/** Where it starts is asked by a script of its own, which a first visit does not load. */
export function deployTopology(topology: Topology): void {
  const read = async (): Promise<Action> => (await import("./continuation")).deploymentRead(topology);
  void actions.askAbout(`Deploy ${topology.name}`, read, (action) => action);
}

export function undeployTopology(topology: Topology): void {
  const queries = [...store.entities.query.values()].filter((row) => row.topology === topology.name).map((row) => row.partition).sort(byName);
  actions.ask({
    title: `Undeploy ${topology.name}`,
    verb: "Undeploy",
    path: `topologies/${encodeURIComponent(topology.name)}/undeploy/`,
    explain: `Stops at the next epoch boundary and stays stopped. Written outputs stay. ${isBounded(topology) ? "Its guarantee is bounded: there is no checkpoint, and a later deployment begins without state." : "If all is well it leaves a checkpoint, from which a later deployment can go on."}`,
    consequences: [{ title: `${plural(queries.length, "query", "queries")} ${queries.length === 1 ? "stops" : "stop"}`, items: queries, tone: "bad" }],
    danger: true,
  });
}

export function deleteTopology(topology: Topology): void {
  actions.ask({
    title: `Delete ${topology.name}`,
    verb: "Delete",
    path: `topologies/${encodeURIComponent(topology.name)}/`,
    explain: "Removes the topology with its versions, its checkpoints and its history. The audit trail stays.",
    consequences: [{ title: "The specification, its versions and the checkpoints cannot be restored.", tone: "bad" }],
    choice: {
      name: "outputs",
      label: "Its outputs",
      options: [
        { value: "keep", label: "Keep them, under a name that says until when they were written" },
        { value: "remove", label: "Remove them" },
      ],
    },
    edit: "remove",
    danger: true,
    done: () => router.go(paths.fleet()),
  });
}
