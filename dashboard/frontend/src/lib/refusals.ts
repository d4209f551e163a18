// What the server refuses now. It decides what an action needs; pages show its words and have no rules of their own.

interface Refusing {
  refusals: Record<string, string>;
}

/** Why the action is refused now; "" where it is permitted. */
export const refusal = (row: Refusing, action: string): string => row.refusals[action] ?? "";
