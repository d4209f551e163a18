// Moments marked in a chart: a dashed line each, its words where they do not run into each other.

import type uPlot from "uplot";

const ROWS = 6;

export function drawMarks(self: uPlot, marks: readonly { at: number; text: string; color?: string }[], css: (name: string) => string): void {
  const { ctx, bbox } = self;
  const pixel = devicePixelRatio;
  const ends: number[] = [];
  ctx.save();
  ctx.font = `500 ${10.5 * pixel}px Inter, system-ui, sans-serif`;
  for (const mark of [...marks].sort((a, b) => a.at - b.at)) {
    const x = self.valToPos(mark.at, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = ctx.fillStyle = css(mark.color ?? "--text-2");
    ctx.globalAlpha = 0.75;
    ctx.setLineDash([3 * pixel, 3 * pixel]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.globalAlpha = 1;
    const width = ctx.measureText(mark.text).width + 10 * pixel;
    const left = x + width > bbox.left + bbox.width ? x - width : x;
    const row = Array.from({ length: ROWS }, (_, i) => i).find((i) => (ends[i] ?? -Infinity) <= left);
    if (row === undefined) continue; // the line is there, and the table has the words
    ends[row] = left + width;
    // On a patch of the background, so that it can be read across lines of the chart.
    const top = bbox.top + (3 + row * 15) * pixel;
    ctx.globalAlpha = 0.65;
    ctx.fillStyle = css("--surface");
    ctx.fillRect(left + 2 * pixel, top, width - 4 * pixel, 14 * pixel);
    ctx.globalAlpha = 1;
    ctx.fillStyle = css(mark.color ?? "--text-2");
    ctx.textAlign = "left";
    ctx.fillText(mark.text, left + 5 * pixel, top + 11 * pixel);
  }
  ctx.restore();
}
