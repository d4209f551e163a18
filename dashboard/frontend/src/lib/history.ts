// Short series for sparklines, collected from the events as they pass. Newest last.

import type { NumberedEvent, Query } from "./entities.generated";

export const POINTS = 120;

export class History {
  private readonly series = new Map<string, number[]>();
  private newest = 0;

  get(key: string): readonly number[] {
    return this.series.get(key) ?? [];
  }

  /** Records the latencies in metrics events; events already seen are passed over. */
  record(events: readonly NumberedEvent[]): void {
    for (const event of events) {
      if (event.sequence <= this.newest) continue;
      this.newest = event.sequence;
      for (const change of event.changes) {
        if (change.entity === "query" && change.fields) this.push(change.key, (change.fields as Partial<Query>).latency);
        if (change.entity === "topology" && change.fields) {
          this.push(`rate:${change.key}`, (change.fields as { input_rate?: number }).input_rate);
        }
      }
    }
  }

  private push(key: string, value: number | null | undefined): void {
    if (typeof value !== "number") return;
    const points = this.series.get(key) ?? [];
    points.push(value);
    if (points.length > POINTS) points.splice(0, points.length - POINTS);
    this.series.set(key, points);
  }
}
