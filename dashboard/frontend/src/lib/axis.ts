// Room for the labels of a chart's axes. Pure.

/** Pixels of a letter of the labels, on average a little less. */
const LETTER = 6.2;

/** Width of an axis whose labels stand beside it: `33 min 20 s` must not lose its beginning. */
export const besideAxis = (labels: readonly string[] | null): number => Math.max(44, Math.ceil(Math.max(0, ...(labels ?? []).map((label) => label.length)) * LETTER) + 12);

/** What is kept free at the right of an axis with labels below it, of which the last may stand under the very end. */
export const behindAxis = (label: string): number => Math.ceil((label.length * LETTER) / 2);
