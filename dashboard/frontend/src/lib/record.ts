// An incident as the server keeps it: with all of its story and its plans, of which a page follows the newest only.

import { fetchIncident, fetchPlans } from "./api";
import type { Entry, Incident, Plan } from "./entities.generated";

export interface IncidentRecord {
  incident: Incident;
  entries: [string, Entry][];
  plans: Plan[];
}

export async function readRecord(number: number): Promise<IncidentRecord> {
  const [{ entries, ...incident }, plans] = await Promise.all([fetchIncident(number), fetchPlans(number)]);
  return { incident, entries: entries.map(({ id, ...entry }) => [String(id), { ...entry, incident: number }]), plans };
}

/** What was read, oldest first, and what is followed, which is newer where there are both. */
export const entriesWith = (record: IncidentRecord | null, followed: readonly [string, Entry][]): [string, Entry][] => [...new Map([...(record?.entries ?? []), ...followed])];

const keyed = (plans: readonly Plan[]): [string, Plan][] => plans.map((plan) => [`${plan.topology}/${plan.generation}`, plan]);

export const plansWith = (record: IncidentRecord | null, followed: readonly Plan[]): Plan[] =>
  [...new Map([...keyed(record?.plans ?? []), ...keyed(followed)]).values()].sort((a, b) => a.generation - b.generation);
