// Where this browser is in the guided tour. It is offered once, can be left at any step, and then never comes
// back by itself; the palette begins it anew.

import { boot, mayAct } from "./boot";
import { FRESH, tourRead, type Target, type Tour } from "./guide";
import { paths, router } from "./router.svelte";
import { store } from "./store.svelte";

const KEY = "resurge.tour";

function stored(): Tour {
  try {
    return tourRead(localStorage.getItem(KEY));
  } catch {
    return FRESH;
  }
}

class Guide {
  tour = $state.raw<Tour>(stored());
  /** Nodes can be killed here, and by this user. */
  readonly possible = boot.faultInjection && mayAct;

  begin(target: Target): void {
    const after = Math.max(0, ...[...store.entities.incident.values()].map((one) => one.number));
    this.keep({ ...FRESH, stage: "running", topology: target.topology.name, rack: target.rack, after, since: new Date(store.now * 1000).toISOString() });
    router.go(paths.topology(target.topology.name));
  }

  change(changes: Partial<Tour>): void {
    this.keep({ ...this.tour, ...changes });
  }

  leave(): void {
    this.keep({ ...FRESH, stage: "left" });
  }

  private keep(tour: Tour): void {
    this.tour = tour;
    try {
      localStorage.setItem(KEY, JSON.stringify(tour));
    } catch {
      // Private windows may refuse; the tour then lasts until the page is closed.
    }
  }
}

export const guide = new Guide();
