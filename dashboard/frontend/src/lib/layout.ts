// Layered layout of a topology, computed by elkjs in a worker so that the page stays responsive.

import ELK, { type ElkExtendedEdge, type ElkNode } from "elkjs/lib/elk-api";
import { boot } from "./boot";
import type { Drawn } from "./collapse";
import { painted } from "./painted";

export interface Box {
  width: number;
  height: number;
}

const HEIGHT = 52;
const [NARROWEST, WIDEST] = [120, 190];

/** As wide as the longest name needs beside its rate, within reason. */
export function boxOf(drawn: readonly Drawn[]): Box {
  const longest = Math.max(0, ...drawn.map((one) => one.label.length));
  return { width: Math.round(Math.min(WIDEST, Math.max(NARROWEST, 25 + 7.3 * longest + 6 + 40 + 10))), height: HEIGHT };
}

/** How many letters of a name fit beside a rate of a given length. */
export const lettersOf = (box: Box, rate: number): number => Math.floor((box.width - 25 - 5 - 6 * rate - 10) / 7);

export interface Placed {
  direction: "RIGHT" | "DOWN";
  width: number;
  height: number;
  box: Box;
  boxes: Map<string, { x: number; y: number }>;
  edges: { id: string; from: string; to: string; partitioning: string; feedback: boolean; path: string }[];
}

let elk: InstanceType<typeof ELK> | null = null;

function engine(): InstanceType<typeof ELK> {
  elk ??= new ELK({ workerFactory: () => new Worker(boot.layoutWorker) });
  return elk;
}

/** Both directions are tried; the one that shows larger in a space of this shape wins. */
export async function place(drawn: readonly Drawn[], space: { width: number; height: number }): Promise<Placed> {
  if (!elk) await painted(); // loading the engine takes a processor for a while: the page comes first
  const [right, down] = await Promise.all([run(drawn, "RIGHT"), run(drawn, "DOWN")]);
  return fitScale(right, space) >= fitScale(down, space) ? right : down;
}

export function fitScale(placed: { width: number; height: number }, space: { width: number; height: number }): number {
  return Math.min(space.width / placed.width, space.height / placed.height);
}

async function run(drawn: readonly Drawn[], direction: "RIGHT" | "DOWN"): Promise<Placed> {
  const box = boxOf(drawn);
  const edges = drawn.flatMap((one) =>
    one.inputs.map((input) => ({
      id: `${input.from}>${one.id}`, from: input.from, to: one.id,
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
    children: drawn.map((one) => ({ id: one.id, ...box })),
    edges: edges.map((edge): ElkExtendedEdge => ({ id: edge.id, sources: [edge.from], targets: [edge.to] })),
  };
  const placed = await engine().layout(graph);
  const boxes = new Map((placed.children ?? []).map((child) => [child.id, { x: child.x ?? 0, y: child.y ?? 0 }]));
  return {
    direction,
    width: placed.width ?? 0,
    height: placed.height ?? 0,
    box,
    boxes,
    edges: edges.map((edge) => ({ ...edge, path: curve(box, boxes.get(edge.from), boxes.get(edge.to), direction) })),
  };
}

/** One smooth curve from port to port: calmer to the eye than routed bends, and shared stems read as a tree. */
function curve({ width, height }: Box, from: { x: number; y: number } | undefined, to: { x: number; y: number } | undefined, direction: "RIGHT" | "DOWN"): string {
  if (!from || !to) return "";
  if (direction === "RIGHT") {
    const [x1, y1, x2, y2] = [from.x + width, from.y + height / 2, to.x, to.y + height / 2];
    const bend = Math.max(24, Math.abs(x2 - x1) / 2);
    return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
  }
  const [x1, y1, x2, y2] = [from.x + width / 2, from.y + height, to.x + width / 2, to.y];
  const bend = Math.max(20, Math.abs(y2 - y1) / 2);
  return `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`;
}
