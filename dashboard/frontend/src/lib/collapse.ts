// What a graph draws: one box for each operator, or, where there are too many to read, one for each group of operators
// of the same kind on the same level. A group is unfolded on a click, or when one of its operators is selected.

import type { OperatorNode, StreamInput } from "./entities.generated";

/** More operators than this are grouped. */
export const MOST_BOXES = 60;

export interface Drawn {
  id: string;
  /** The operator's name, or how many the group has. */
  label: string;
  kind: string;
  output: boolean;
  members: OperatorNode[];
  inputs: StreamInput[];
}

const groupOf = (operator: OperatorNode): string => `${operator.level}/${operator.kind}${operator.output ? "/output" : ""}`;

/** Names of the groups there are; none in a graph that is drawn as it is. */
export function groups(operators: readonly OperatorNode[]): Map<string, OperatorNode[]> {
  if (operators.length <= MOST_BOXES) return new Map();
  const found = new Map<string, OperatorNode[]>();
  for (const operator of operators) {
    const members = found.get(groupOf(operator));
    if (members) members.push(operator);
    else found.set(groupOf(operator), [operator]);
  }
  return new Map([...found].filter(([, members]) => members.length > 1));
}

export function collapse(operators: readonly OperatorNode[], open: ReadonlySet<string>, selected: string | null): Drawn[] {
  const box = new Map<string, string>();
  const grouped = groups(operators);
  for (const [name, members] of grouped) {
    if (open.has(name) || members.some((one) => one.name === selected)) continue;
    for (const one of members) box.set(one.name, name);
  }
  const drawn = new Map<string, Drawn>();
  for (const operator of operators) {
    const id = box.get(operator.name) ?? operator.name;
    const whole = drawn.get(id);
    if (whole) whole.members.push(operator);
    else drawn.set(id, { id, label: operator.name, kind: operator.kind, output: operator.output, members: [operator], inputs: [] });
  }
  for (const one of drawn.values()) {
    if (one.members.length > 1) one.label = `${one.members.length} × ${one.kind.replaceAll("_", " ")}`;
    one.inputs = joined(one, box);
  }
  return [...drawn.values()];
}

/** Streams into a box from other boxes, each once: the same way of partitioning, or the first that was met. */
function joined(drawn: Drawn, box: ReadonlyMap<string, string>): StreamInput[] {
  const found = new Map<string, StreamInput>();
  for (const operator of drawn.members) {
    for (const input of operator.inputs) {
      const from = box.get(input.from) ?? input.from;
      if (from === drawn.id && drawn.members.length > 1) continue;
      const known = found.get(from);
      if (!known) found.set(from, { ...input, from });
      else if (known.feedback && !input.feedback) found.set(from, { ...known, feedback: false });
    }
  }
  return [...found.values()];
}
