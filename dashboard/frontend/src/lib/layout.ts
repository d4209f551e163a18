// Layered layout of a topology, computed in a worker (`layoutWorker.ts`).

import { boot } from "./boot";
import type { Drawn } from "./collapse";
import { MARGIN, backCurve, curve, roomBeside, type Corner } from "./edges";
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

/** What the worker is asked. boxes: names; edges: from one of them to another. */
export interface LayoutQuestion {
  id: number;
  direction: "RIGHT" | "DOWN";
  box: Box;
  boxes: string[];
  edges: [string, string][];
}

/** corners: left and top of each box, in the order of the question. */
export interface LayoutAnswer {
  id: number;
  width: number;
  height: number;
  corners: [number, number][];
}

let worker: Worker | null = null;
let asked = 0;
const waiting = new Map<number, { done: (answer: LayoutAnswer) => void; failed: (error: Error) => void }>();

function ask(question: Omit<LayoutQuestion, "id">): Promise<LayoutAnswer> {
  worker ??= started();
  const id = ++asked;
  worker.postMessage({ ...question, id } satisfies LayoutQuestion);
  return new Promise((done, failed) => waiting.set(id, { done, failed }));
}

function started(): Worker {
  const one = new Worker(boot.layoutWorker);
  one.onmessage = (event: MessageEvent<LayoutAnswer>) => {
    waiting.get(event.data.id)?.done(event.data);
    waiting.delete(event.data.id);
  };
  // It does not say which question failed, so all fail. The next question starts another worker.
  one.onerror = (event) => {
    worker = null;
    for (const { failed } of waiting.values()) failed(new Error(`the graph could not be placed: ${event.message}`));
    waiting.clear();
  };
  return one;
}

/** Both directions are tried; the one that shows larger in a space of this shape wins. */
export async function place(drawn: readonly Drawn[], space: { width: number; height: number }): Promise<Placed> {
  if (!worker) await painted(); // the page comes first
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
  const answer = await ask({
    direction, box,
    boxes: drawn.map((one) => one.id),
    edges: edges.filter((edge) => !edge.feedback).map((edge): [string, string] => [edge.from, edge.to]),
  });
  const found = new Map(drawn.map((one, index) => {
    const [x, y] = answer.corners[index] ?? [0, 0];
    return [one.id, { x, y }] as [string, Corner];
  }));
  const back = edges.filter((edge) => edge.feedback).map((edge) => [found.get(edge.from), found.get(edge.to)] as [Corner?, Corner?]);
  const room = roomBeside(back, direction, MARGIN);
  const [right, down] = direction === "RIGHT" ? [0, room] : [room, 0];
  const boxes = new Map([...found].map(([name, { x, y }]) => [name, { x: x + right, y: y + down }]));
  return {
    direction,
    width: answer.width + right,
    height: answer.height + down,
    box,
    boxes,
    edges: edges.map((edge) => ({ ...edge, path: (edge.feedback ? backCurve : curve)(box, boxes.get(edge.from), boxes.get(edge.to), direction) })),
  };
}
