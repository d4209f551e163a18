// Figures over time, as `measurements/` answers. Pure.

import { seconds } from "./format";

export interface CourseLine {
  unit: string;
  mean: (number | null)[];
  low: (number | null)[];
  high: (number | null)[];
}

export interface Course {
  /** Length of the buckets. */
  seconds: number;
  since: string;
  until: string;
  at: string[];
  figures: Record<string, CourseLine>;
}

/** Points of a chart; a bucket that is missing gets a null, so that no line is drawn over it. */
export function pointsOf(course: Course): { times: number[]; lines: Record<string, CourseLine> } {
  const times: number[] = [];
  const places: number[] = [];
  course.at.forEach((text, index) => {
    const at = seconds(text) ?? 0;
    const before = times.at(-1);
    if (before !== undefined && at - before > course.seconds * 1.5) {
      times.push(before + course.seconds);
      places.push(-1);
    }
    times.push(at);
    places.push(index);
  });
  const spread = (values: (number | null)[]): (number | null)[] => places.map((place) => values[place] ?? null);
  const lines = Object.fromEntries(
    Object.entries(course.figures).map(([name, line]) => [name, { unit: line.unit, mean: spread(line.mean), low: spread(line.low), high: spread(line.high) }]),
  );
  return { times, lines };
}

/** "10 s", "1 min", "10 min", "4.8 h". */
export const bucketWords = (length: number): string =>
  length < 60 ? `${length} s` : length < 3600 ? `${length / 60} min` : `${Number((length / 3600).toFixed(1))} h`;
