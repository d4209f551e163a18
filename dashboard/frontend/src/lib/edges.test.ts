import { describe, expect, it } from "vitest";
import { backCurve, curve, roomBeside } from "./edges";

const box = { width: 100, height: 50 };
const numbers = (path: string): number[] => path.match(/-?[\d.]+/g)!.map(Number);

describe("the curves of streams", () => {
  it("go from port to port", () => {
    expect(numbers(curve(box, { x: 0, y: 0 }, { x: 200, y: 80 }, "RIGHT"))).toEqual([100, 25, 150, 25, 150, 105, 200, 105]);
    expect(numbers(curve(box, { x: 0, y: 0 }, { x: 20, y: 150 }, "DOWN"))).toEqual([50, 50, 50, 100, 70, 100, 70, 150]);
    expect(curve(box, undefined, { x: 0, y: 0 }, "RIGHT")).toBe("");
  });

  it("go back above the boxes, or left of them", () => {
    const [, y1, , over, , over2, , y2] = numbers(backCurve(box, { x: 300, y: 40 }, { x: 0, y: 60 }, "RIGHT"));
    expect([y1, y2]).toEqual([40, 60]);
    expect(over).toBe(over2);
    expect(over).toBeLessThan(40);
    const [x1, , beside] = numbers(backCurve(box, { x: 30, y: 300 }, { x: 70, y: 0 }, "DOWN"));
    expect(x1).toBe(30);
    expect(beside).toBeLessThan(30);
  });

  it("come back to the box that they left", () => {
    const [x1, , , over, , , x2] = numbers(backCurve(box, { x: 0, y: 40 }, { x: 0, y: 40 }, "RIGHT"));
    expect(x1).toBeGreaterThan(x2!);
    expect(over).toBeLessThan(40);
  });

  it("have room at the edge", () => {
    const [from, to] = [{ x: 300, y: 10 }, { x: 0, y: 30 }];
    const room = roomBeside([[from, to]], "RIGHT", 10);
    expect(room).toBe(26 + 24);
    // The highest point of the arc, halfway.
    const moved = backCurve(box, { x: 300, y: 10 + room }, { x: 0, y: 30 + room }, "RIGHT");
    const [, y1, , over, , , , y2] = numbers(moved);
    expect((y1! + y2!) / 8 + 0.75 * over!).toBeGreaterThanOrEqual(10);
    expect(roomBeside([], "RIGHT", 10)).toBe(0);
    expect(roomBeside([[{ x: 200, y: 300 }, { x: 200, y: 0 }]], "DOWN", 10)).toBe(0);
  });
});
