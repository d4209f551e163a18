// What the loss of a single rack would take down of a topology.

import type { RackLoss, Topology } from "./entities.generated";
import { percent, plural } from "./format";

type Exposed = Pick<Topology, "rack_exposure">;

export interface RackWords {
  text: string;
  /** Whether one rack's loss takes down every query although there are others. */
  warn: boolean;
}

/** "rack-a", "rack r1", or the node of which no rack is known. */
export function rackName(loss: Pick<RackLoss, "rack" | "node">): string {
  if (!loss.rack) return loss.node;
  return /^rack/i.test(loss.rack) ? loss.rack : `rack ${loss.rack}`;
}

/** One sentence or two; null while no rack is known, since nothing can be said then. */
export function rackWords(topology: Exposed): RackWords | null {
  const { racks, fatal, losses } = topology.rack_exposure;
  const worst = losses[0];
  if (!racks || !worst) return null;
  if (racks === 1) return { text: `All nodes are in one rack, ${rackName(worst)}: its loss would take down every query.`, warn: false };
  if (fatal) {
    const named = losses.slice(0, fatal);
    const names = named.map(rackName);
    const more = fatal - named.length;
    const last = more ? `one of ${more} more` : names.pop();
    const which = names.length ? `${names.join(", ")} or ${last}` : last;
    const why = named.every((loss) => loss.common) ? "partitions that all queries need run there" : "every query has a partition there";
    return { text: `The loss of ${which} would take down every query: ${why}.`, warn: true };
  }
  if (!worst.queries) return null;
  const queries = plural(worst.queries, "query", "queries");
  return { text: `No rack's loss would take down every query. The worst is ${rackName(worst)}: ${queries}, ${percent(worst.share)} of the priority.`, warn: false };
}
