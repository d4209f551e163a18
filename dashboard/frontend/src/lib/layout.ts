// Layered layout of a topology, computed by elkjs in a worker so that the page stays responsive.

import ELK, { type ElkExtendedEdge, type ElkNode } from "elkjs/lib/elk-api";
import { boot } from "./boot";
import type { OperatorNode } from "./types";

export const BOX = { width: 120, height: 52 };

export interface Placed {
  direction: "RIGHT" | "DOWN";
  width: number;
  height: number;
  boxes: Map<string, { x: number; y: number }>;
  edges: { id: string; from: string; to: string; partitioning: string; feedback: boolean; path: string }[];
}

let elk: InstanceType<typeof ELK> | null = null;

function engine(): InstanceType<typeof ELK> {
  elk ??= new ELK({ workerFactory: () => new Worker(boot.layoutWorker) });
  return elk;
}

/** Both directions are tried; the one that shows larger in a space of this shape wins. */
export async function place(operators: readonly OperatorNode[], space: { width: number; height: number }): Promise<Placed> {
  const [right, down] = await Promise.all([run(operators, "RIGHT"), run(operators, "DOWN")]);
  return fitScale(right, space) >= fitScale(down, space) ? right : down;
}

export function fitScale(placed: { width: number; height: number }, space: { width: number; height: number }): number {
  return Math.min(space.width / placed.width, space.height / placed.height);
}

async function run(operators: readonly OperatorNode[], direction: "RIGHT" | "DOWN"): Promise<Placed> {
  const edges = operators.flatMap((operator) =>
    operator.inputs.map((input) => ({
      id: `${input.from}>${operator.name}`, from: input.from, to: operator.name,
      partitioning: input.partitioning, feedback: input.feedback ?? false,
    })),
  );
  const graph: ElkNode = {
    id: "root",
    layoutOptions: {
      "elk.algorithm": "layered",
      "elk.direction": direction,
      "elk.layered.spacing.nodeNodeBetweenLayers": direction === "RIGHT" ? "64" : "46",
      "elk.spacing.nodeNode": direction === "RIGHT" ? "14" : "12",
      "elk.spacing.edgeNode": "12",
      "elk.layered.nodePlacement.strategy": "BRANDES_KOEPF",
      "elk.layered.nodePlacement.bk.fixedAlignment": "BALANCED",
      "elk.layered.considerModelOrder.strategy": "NODES_AND_EDGES",
      "elk.edgeRouting": "SPLINES",
      "elk.padding": "[top=10,left=10,bottom=10,right=10]",
    },
    children: operators.map((operator) => ({ id: operator.name, ...BOX })),
    edges: edges.map((edge): ElkExtendedEdge => ({ id: edge.id, sources: [edge.from], targets: [edge.to] })),
  };
  const placed = await engine().layout(graph);
  const boxes = new Map((placed.children ?? []).map((child) => [child.id, { x: child.x ?? 0, y: child.y ?? 0 }]));
  return {
    direction,
    width: placed.width ?? 0,
    height: placed.height ?? 0,
    boxes,
    edges: edges.map((edge) => ({ ...edge, path: curve(boxes.get(edge.from), boxes.get(edge.to), direction) })),
  };
}

/** One smooth curve from port to port: calmer to the eye than routed bends, and shared stems read as a tree. */
function curve(from: { x: number; y: number } | undefined, to: { x: number; y: number } | undefined, direction: "RIGHT" | "DOWN"): string {
  if (!from || !to) return "";
  const { width, height } = BOX;
  if (direction === "RIGHT") {
    const [x1, y1, x2, y2] = [from.x + width, from.y + height / 2, to.x, to.y + height / 2];
    const bend = Math.max(24, Math.abs(x2 - x1) / 2);
    return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
  }
  const [x1, y1, x2, y2] = [from.x + width / 2, from.y + height, to.x + width / 2, to.y];
  const bend = Math.max(20, Math.abs(y2 - y1) / 2);
  return `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`;
}
