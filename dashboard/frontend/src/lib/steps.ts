// The curve of availability in a part of its time. Pure.

import type { Sample } from "./entities.generated";
import { seconds } from "./format";

const at = (sample: Sample): number => seconds(sample.at) ?? 0;
const alike = (one: Sample, other: Sample): boolean =>
  one.available === other.available && one.total === other.total && one.weighted === other.weighted && one.tentative === other.tentative;

/** Samples of one topology, in any order, from a moment to another, in Unix seconds; ascending. A snapshot has only the first and the
 * last of those that say the same. So where the one before `from` says the same as the next one, it is there at `from`, too. */
export function stepsOf(samples: readonly Sample[], from = -Infinity, to = Infinity): Sample[] {
  const sorted = [...samples].sort((a, b) => at(a) - at(b));
  const begin = sorted.findIndex((sample) => at(sample) >= from);
  if (begin < 0) return [];
  const shown = sorted.slice(begin).filter((sample) => at(sample) <= to);
  const [before, next] = [sorted[begin - 1], sorted[begin]!];
  return before && alike(before, next) && at(next) > from && from <= to ? [{ ...before, at: new Date(from * 1000).toISOString() }, ...shown] : shown;
}
