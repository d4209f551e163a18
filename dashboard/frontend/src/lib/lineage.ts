// Questions about a topology's operators: what feeds this, what depends on it, what is lost with a node.

import type { OperatorNode, Partition, Query } from "./entities.generated";
import { byName } from "./format";

export interface Neighbours {
  upstream: Map<string, string[]>;
  downstream: Map<string, string[]>;
}

/** Anything with a name and inputs: operators, or the boxes a graph draws. */
export function neighbours(operators: readonly Pick<OperatorNode, "name" | "inputs">[]): Neighbours {
  const upstream = new Map<string, string[]>(operators.map((operator) => [operator.name, []]));
  const downstream = new Map<string, string[]>(operators.map((operator) => [operator.name, []]));
  for (const operator of operators) {
    for (const input of operator.inputs) {
      upstream.get(operator.name)?.push(input.from);
      downstream.get(input.from)?.push(operator.name);
    }
  }
  return { upstream, downstream };
}

/** Everything reachable from `start`, itself included. */
export function closure(start: Iterable<string>, edges: Map<string, string[]>): Set<string> {
  const seen = new Set(start);
  const open = [...seen];
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    for (const next of edges.get(name) ?? []) {
      if (!seen.has(next)) {
        seen.add(next);
        open.push(next);
      }
    }
  }
  return seen;
}

const partitionName = (operator: string, index: number): string => `${operator}[${index}]`;

/** Indices of the partitions of a target that partition `index` of a source with `m` partitions feeds by a stream that is not `full`. */
function targets(partitioning: string, index: number, m: number, n: number): number[] {
  if (partitioning === "one_to_one") return [index];
  if (partitioning === "split") {
    const share = Math.floor(n / m);
    return Array.from({ length: share }, (_, i) => index * share + i);
  }
  return [Math.floor((index * n) / m)]; // merge
}

const partitionsOf = ({ name, parallelism }: OperatorNode): string[] => Array.from({ length: parallelism }, (_, index) => partitionName(name, index));

/** Where each partition's rows go. Those of a `full` stream go through a place that stands for the stream: between 1,000 partitions
 * and 1,000 others there would be a million edges. */
export function partitionEdges(operators: readonly OperatorNode[]): Map<string, string[]> {
  const parallelism = new Map(operators.map((operator) => [operator.name, operator.parallelism]));
  const downstream = new Map<string, string[]>();
  for (const operator of operators) {
    for (const input of operator.inputs) {
      const m = parallelism.get(input.from) ?? 1;
      const full = input.partitioning === "full" ? `${input.from} to ${operator.name}` : null;
      if (full) downstream.set(full, partitionsOf(operator));
      for (let index = 0; index < m; index += 1) {
        const source = partitionName(input.from, index);
        const list = downstream.get(source) ?? [];
        if (full) list.push(full);
        else for (const target of targets(input.partitioning, index, m, operator.parallelism)) list.push(partitionName(operator.name, target));
        downstream.set(source, list);
      }
    }
  }
  return downstream;
}

const feeders = new WeakMap<readonly OperatorNode[], Map<string, string[]>>();

/** What feeds each partition; worked out once for each graph. */
export function partitionSources(operators: readonly OperatorNode[]): Map<string, string[]> {
  let upstream = feeders.get(operators);
  if (!upstream) {
    upstream = new Map();
    for (const [source, fed] of partitionEdges(operators)) {
      for (const target of fed) {
        const list = upstream.get(target);
        if (list) list.push(source);
        else upstream.set(target, [source]);
      }
    }
    feeders.set(operators, upstream);
  }
  return upstream;
}

/** The queries that stop when the given partitions are lost, by name. */
export function queriesLost(operators: readonly OperatorNode[], lost: Iterable<string>, queries: readonly Query[]): string[] {
  const affected = closure(lost, partitionEdges(operators));
  return queries.map((query) => query.partition).filter((name) => affected.has(name)).sort(byName);
}

export function partitionsOn(node: string, partitions: Iterable<Partition>): Partition[] {
  return [...partitions].filter((partition) => partition.node === node);
}

export { partitionName };
