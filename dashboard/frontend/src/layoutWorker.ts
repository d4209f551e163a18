// Places boxes in layers, in a worker, so that the page stays responsive with thousands of them.

import dagre from "@dagrejs/dagre";
import { MARGIN } from "./lib/edges";
import type { LayoutAnswer, LayoutQuestion } from "./lib/layout";

function place({ id, direction, box, boxes, edges }: LayoutQuestion): LayoutAnswer {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({
    rankdir: direction === "RIGHT" ? "LR" : "TB",
    ranksep: direction === "RIGHT" ? 64 : 46,
    nodesep: direction === "RIGHT" ? 14 : 12,
    edgesep: 12,
    marginx: MARGIN,
    marginy: MARGIN,
  });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const name of boxes) graph.setNode(name, { ...box });
  for (const [from, to] of edges) if (from !== to) graph.setEdge(from, to);
  dagre.layout(graph);
  const whole = graph.graph();
  return {
    id,
    width: whole.width ?? 0,
    height: whole.height ?? 0,
    // It gives centres.
    corners: boxes.map((name) => {
      const { x, y } = graph.node(name);
      return [x - box.width / 2, y - box.height / 2];
    }),
  };
}

self.onmessage = (event: MessageEvent<LayoutQuestion>) => {
  self.postMessage(place(event.data));
};
