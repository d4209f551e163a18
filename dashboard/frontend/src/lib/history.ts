// Short series for sparklines: what the server kept, and then what events tell as they pass. Newest last.

import type { NumberedEvent, Query } from "./entities.generated";

export const POINTS = 120;

/** The answer of `snapshot/recent/`. */
export interface Recent {
  sequence: number;
  latencies: Record<string, number[]>;
  rates: Record<string, number[]>;
}

export class History {
  private readonly series = new Map<string, number[]>();
  private newest = 0;

  get(key: string): readonly number[] {
    return this.series.get(key) ?? [];
  }

  begin(recent: Recent): void {
    this.newest = recent.sequence;
    for (const [key, values] of Object.entries(recent.latencies)) this.series.set(key, [...values]);
    for (const [key, values] of Object.entries(recent.rates)) this.series.set(`rate:${key}`, [...values]);
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
