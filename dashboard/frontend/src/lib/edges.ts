// The curves of streams between boxes. A stream goes from the last side of one box to the first side of the next one, in the
// direction of the layers; a feedback stream goes back, in an arc beside the boxes.

export type Direction = "RIGHT" | "DOWN";

export interface Size {
  width: number;
  height: number;
}

export interface Corner {
  x: number;
  y: number;
}

/** Between boxes or arcs and the edge. */
export const MARGIN = 10;
const [LEAST_LIFT, MOST_LIFT] = [26, 90];

/** One smooth curve from port to port: calmer to the eye than routed bends, and shared stems read as a tree. */
export function curve({ width, height }: Size, from: Corner | undefined, to: Corner | undefined, direction: Direction): string {
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

/** An arc back: above the boxes, or left of them where layers go down. */
export function backCurve({ width, height }: Size, from: Corner | undefined, to: Corner | undefined, direction: Direction): string {
  if (!from || !to) return "";
  if (direction === "RIGHT") {
    const [x1, x2] = [from.x + width * 0.72, to.x + width * 0.28];
    const over = Math.min(from.y, to.y) - (lift(from.x - to.x) * 4) / 3;
    return `M${x1} ${from.y}C${x1} ${over} ${x2} ${over} ${x2} ${to.y}`;
  }
  const [y1, y2] = [from.y + height * 0.72, to.y + height * 0.28];
  const beside = Math.min(from.x, to.x) - (lift(from.y - to.y) * 4) / 3;
  return `M${from.x} ${y1}C${beside} ${y1} ${beside} ${y2} ${to.x} ${y2}`;
}

/** How far an arc is from the nearer of its boxes, at most: more where it goes back further, so that arcs lie in each other. */
const lift = (distance: number): number => Math.min(MOST_LIFT, LEAST_LIFT + Math.abs(distance) * 0.08);

/** By how much boxes have to move away from the edge, so that the arcs beside them have room. */
export function roomBeside(arcs: readonly [Corner?, Corner?][], direction: Direction, margin: number): number {
  const [along, across] = direction === "RIGHT" ? (["x", "y"] as const) : (["y", "x"] as const);
  return arcs.reduce((most, [from, to]) => {
    if (!from || !to) return most;
    return Math.max(most, margin + lift(from[along] - to[along]) - Math.min(from[across], to[across]));
  }, 0);
}
